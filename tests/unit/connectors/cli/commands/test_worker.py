"""`shardlog worker`: what it refuses before it asks Kafka for anything, and what --check shows."""

import json

import pytest

from connectors.settings.options import WorkerOptions
from connectors.settings.stream_settings import StreamSettings
from tests.unit.connectors.command import runner


@pytest.fixture
def worker(capsys, tmp_path):
    """Run `shardlog worker` with settings over a few that will do; no broker answers."""
    run = runner(capsys)

    def with_settings(*settings, options=()):
        will_do = (f"root={tmp_path}", 'topics=["orders"]', "kafka.bootstrap.servers=127.0.0.1:1")
        overrides = [f"--set={setting}" for setting in (*will_do, *settings)]
        return run("worker", *options, *overrides)

    return with_settings


def expect_one_line(ran, complaint):
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("options", [(), ("--check",)])
@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("kafka.group.id=", "group.id"),
        ("kafka.fetch.mim.bytes=3", "did you mean fetch.min.bytes?"),
        ("kafka.auto.offset.reset=earliest", "is set by `start`"),
        ("kafka.partition.assignment.strategy=range", "takes cooperative-sticky alone"),
        ("kafka.partition.assignment.strategy=roundrobin", "leave it out"),
        ("start=1700000000", "not seconds and not an offset"),
        ("topics=a,b,a", "topics: 'a' is listed twice"),
        ("on_fault={x", "--set on_fault: is not JSON"),
        ("root=/etc/passwd/below", "is not a directory"),
        (f"root=/tmp/{'x' * 300}", "too long"),
        ("root=/proc/shardlog", "/proc/shardlog"),
        ("lake.credentials_file=/nowhere/lake.toml", "no such file or directory (at /nowhere/lake"),
        (
            "stream.lake=s3://key:secret@bucket/orders",
            "lake: 's3://…@bucket/orders' has credentials",
        ),
    ],
)
def test_settings_are_refused_by_the_worker_and_by_check_alike(worker, options, setting, complaint):
    expect_one_line(worker(setting, options=options), complaint)


@pytest.mark.parametrize("target", ["nowhere/deep", "link"])
def test_root_that_is_a_link_to_nothing_is_refused(worker, tmp_path, target):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / target)
    for root in (link, link / "below"):
        expect_one_line(worker(f"root={root}", options=["--check"]), "is a link to a place that is")


def test_check_asks_no_broker(worker):
    assert worker(options=["--check"]).code == 0


def test_check_shows_what_is_in_force(worker):
    printed = json.loads(worker("linger_ms=7", options=["--check"]).out)
    assert (printed["linger_ms"], printed["topics"]) == (7, ["orders"])
    assert printed["kafka"]["bootstrap.servers"] == "127.0.0.1:1"


def test_check_shows_which_way_records_would_be_fetched(worker):
    asked_for = json.loads(worker("fetch=python", options=["--check"]).out)
    assert (asked_for["fetch"], asked_for["fetches_by"]) == ("python", "python")
    by_itself = json.loads(worker(options=["--check"]).out)
    assert by_itself["fetch"] == "auto"
    assert by_itself["fetches_by"] == "native" or by_itself["fetches_by"].startswith(
        "python, since"
    )


def test_check_shows_defaults_too(worker):
    printed = json.loads(worker("kafka.fetch.min.bytes=7", options=["--check"]).out)
    names = {each.alias or name for name, each in WorkerOptions.model_fields.items()}
    assert set(printed) == {*names, "fetches_by"}
    assert set(printed["stream"]) == set(StreamSettings.model_fields)
    in_force = printed["kafka"]
    assert (in_force["group.id"], in_force["fetch.min.bytes"]) == ("shardlog", 7)
    assert (in_force["check.crcs"], in_force["client.id"]) == (True, "shardlog-consumer")
    assert in_force["isolation.level"] == "read_committed"


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.client.secret",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "sasl.kerberos.kinit.cmd",
    ],
)
def test_check_shows_no_secret(worker, name):
    # Some are refused in this form; none may appear in what is said.
    ran = worker(f"kafka.{name}=hunter2", options=["--check"])
    assert "hunter2" not in ran.out + ran.err
    assert ran.code != 0 or json.loads(ran.out)["kafka"][name] == "***"


@pytest.mark.parametrize(
    ("name", "value", "printable"),
    [
        (
            "sasl.oauthbearer.token.endpoint.url",
            "https://me:canary@host/token?key=canary",
            "https://***@host/token?***",
        ),
        ("client.rack", "https://me:can@/ary@host/", "https://***@host/"),
        ("ssl.certificate.pem", "-----BEGIN PRIVATE KEY-----canary", "***"),
        ("client.id", "plain?name", "plain?name"),
    ],
)
def test_check_shows_no_secret_within_a_value(worker, name, value, printable):
    parsed = json.loads(worker(f"kafka.{name}={value}", options=["--check"]).out)
    assert parsed["kafka"][name] == printable


def test_brokers_with_a_password_are_refused_without_showing_it(worker):
    ran = worker("kafka.bootstrap.servers=me:canary@host:9092", options=["--check"])
    expect_one_line(ran, '"bootstrap.servers" takes host:port alone; a user and a password are')
    assert "canary" not in ran.err


def test_argument_that_nobody_expects_is_not_shown(worker):
    ran = worker(options=["--set", "kafka.sasl.password", "canary"])
    assert (ran.code, "canary" in ran.err) == (2, False)
    assert "a setting and its value are one argument, as key=value" in ran.err


def test_check_shows_settings_that_are_no_secrets(worker):
    ran = worker("kafka.sasl.username=me", options=["--check"])
    assert json.loads(ran.out)["kafka"]["sasl.username"] == "me"


def test_check_leaves_nothing_behind_where_the_root_is_to_be(worker, tmp_path):
    assert worker(f"root={tmp_path}/a/b", options=["--check"]).code == 0
    assert worker(options=["--check"]).code == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("metrics.listen=9404", "metrics.listen: '9404' is not an address; write host:port"),
        ("metrics.stalled_after_s=0", "metrics.stalled_after_s"),
        ("metrics.port=1", "metrics.port: unknown key"),
    ],
)
def test_unsuitable_settings_of_metrics_are_refused(worker, setting, complaint):
    expect_one_line(worker(setting, options=["--check"]), complaint)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("serve.listen=8085", "serve.listen: '8085' is not an address; write host:port"),
        ("serve.listen=0.0.0.0:8085", "name a file of tokens by serve.read_token_file"),
        ('serve={"listen": "127.0.0.1:0", "tls_cert": "c.pem"}', "serve.tls_cert and serve.tls"),
        ("serve.port=1", "serve.port: unknown key"),
        ("serve.answers_max=0", "serve.answers_max"),
    ],
)
def test_unsuitable_settings_of_the_server_are_refused(worker, setting, complaint):
    expect_one_line(worker(setting, options=["--check"]), complaint)


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"read_token_file": "/nowhere/tokens"}, "the file of tokens cannot be read"),
        ({"write_token_file": "SHORT"}, "a token has at least 16 characters"),
        ({"tls_cert": "/nowhere/c.pem", "tls_key": "/nowhere/k.pem"}, "the TLS certificate"),
        ({"listen": "nowhere.invalid:0", "anonymous": True}, "serve.listen: nowhere.invalid:0"),
    ],
)
def test_check_refuses_what_a_start_refuses_of_the_server(worker, tmp_path, section, complaint):
    short = tmp_path / "short"
    short.write_text("short\n")
    section = {name: str(short) if it == "SHORT" else it for name, it in section.items()}
    serve = json.dumps({"listen": "127.0.0.1:0", **section})
    expect_one_line(worker(f"serve={serve}", options=["--check"]), complaint)


def test_check_refuses_an_address_of_metrics_that_is_none_of_this_machine(worker):
    ran = worker("metrics.listen=nowhere.invalid:9404", options=["--check"])
    expect_one_line(ran, "metrics.listen: nowhere.invalid:9404 is no address of this machine")


def test_one_address_for_metrics_and_for_the_server_is_refused(worker):
    ran = worker("metrics.listen=127.0.0.1:9404", "serve.listen=127.0.0.1:9404")
    expect_one_line(ran, "metrics.listen and serve.listen are both 127.0.0.1:9404")


@pytest.mark.parametrize(
    "key", ["log.file", "serve.tls_cert", "serve.tls_key", "serve.read_token_file"]
)
def test_file_whose_name_is_empty_is_refused(worker, key):
    expect_one_line(worker(f"{key}=", options=["--check"]), f"{key}: is empty; name a file")


def test_setting_without_its_equals_sign_does_not_show_a_secret(worker):
    for mistyped in ("kafka.sasl.password:canary", "kafka.sasl.password canary"):
        ran = worker(mistyped)
        expect_one_line(ran, "--set kafka.sasl.password...: is not of the form key=value")
        assert "canary" not in ran.err


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("log.file=/nowhere/deep/worker.log", "log.file cannot be made: /nowhere/deep is no"),
        ("log.file=/tmp", "log.file is a directory; name a file"),
        ("log.keep_days=0", "log.keep_days"),
        ('log.levels={"advance": "error"}', "log.levels: 'advance': no such logger; there are all"),
        ('log.levels={"all": "loud"}', "log.levels.all"),
    ],
)
def test_unsuitable_settings_of_lines_are_refused(worker, setting, complaint):
    expect_one_line(worker(setting, options=["--check"]), complaint)
