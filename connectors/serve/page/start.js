// What is there from the start: views, light and dark, the token.

const THEME = "shardlog-theme";
const THEMES = ["auto", "light", "dark"];
const VIEWS = ["tab-commands", "tab-live", "tab-board"];
const darkPreferred = matchMedia("(prefers-color-scheme: dark)");
let selectView;

function showTheme() {
  const theme = THEMES.includes(kept(THEME, "auto")) ? kept(THEME, "auto") : "auto";
  const isDark = theme === "dark" || (theme === "auto" && darkPreferred.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  byId("theme").replaceChildren("◐", make("span", { class: "wide-only" }, ` ${theme}`));
  byId("theme").setAttribute("aria-label", `Colours: ${theme}. Change`);
  byId("theme").title = `Colours: ${theme}`;
}

function nextTheme() {
  const at = THEMES.indexOf(kept(THEME, "auto"));
  keep(THEME, THEMES[(at + 1) % THEMES.length]);
  showTheme();
}

function showView(tab) {
  for (const id of VIEWS) byId(byId(id).getAttribute("aria-controls")).hidden = id !== tab;
  if (tab === "tab-board") askBoard();
  try {
    history.replaceState(null, "", `#${tab.slice(4)}`);
  } catch {
    // A page that is shown within another has no address of its own.
  }
}

function startToken() {
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const token = byId("token").value.trim();
    if (/[^\x21-\x7e]/.test(token)) return say("token-why", "A token is ASCII, without blanks.");
    keepToken(token);
    byId("token").value = "";
    byId("token-form").hidden = true;
    loadTypes();
    if (!byId("view-board").hidden) askBoard();
  });
  byId("token-forget").addEventListener("click", () => {
    keepToken("");
    say("token-why", "It is forgotten.");
  });
  byId("token-open").addEventListener("click", () => {
    byId("token-form").hidden = !byId("token-form").hidden;
    say("token-why", "");
    if (!byId("token-form").hidden) byId("token").focus();
  });
  byId("token-open").hidden = !tokenKept();
}

async function showServer() {
  try {
    const { version } = await (await fetched("/version")).json();
    say("server", `${location.host}${version ? ` · ${version}` : ""}`);
  } catch (error) {
    say("server", messageOf(error));
  }
}

showTheme();
darkPreferred.addEventListener("change", showTheme);
byId("theme").addEventListener("click", nextTheme);
selectView = asTabs(VIEWS, showView);
startEditor();
startAnswers();
startTypes();
startLiveView();
startToken();
document.addEventListener("visibilitychange", () => document.hidden || askBoard());
if (VIEWS.includes(`tab-${location.hash.slice(1)}`)) selectView(`tab-${location.hash.slice(1)}`);
showServer();
loadTypes();
