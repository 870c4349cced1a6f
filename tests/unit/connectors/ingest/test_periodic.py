"""What is due every so often: at once at first, then after its time, sooner when hastened."""

from connectors.ingest.periodic import Periodic


def test_it_is_called_at_once_and_then_every_so_often():
    calls: list[float] = []
    periodic = Periodic(1.0, calls.append)
    for tenth in range(25):
        periodic.tick(tenth / 10)
    assert calls == [0.0, 1.0, 2.0]


def test_what_is_hastened_is_called_with_the_next_tick_also_by_itself():
    calls: list[float] = []

    def call(now_s):
        calls.append(now_s)
        if now_s == 0.5:
            periodic.hasten()

    periodic = Periodic(1.0, call)
    periodic.tick(0.0)
    periodic.hasten()
    for now_s in (0.5, 0.6, 0.7):
        periodic.tick(now_s)
    assert calls == [0.0, 0.5, 0.6]
