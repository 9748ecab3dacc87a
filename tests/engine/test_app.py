import logging
import sys

import ipyparallel.engine.app as engine_app
from ipykernel.displayhook import ZMQDisplayHook
from ipykernel.iostream import OutStream

from gpulayer_nb.engine import app


class Stream(OutStream):
    _original_stdstream_copy = 2

    def __init__(self, *_):
        self.written = []

    def write(self, text):
        self.written.append(text)

    def flush(self): ...
    def close(self): ...


class Hook(ZMQDisplayHook):
    def __init__(self, *_): ...


def test_nothing_is_written_into_the_first_cells_output(monkeypatch):
    """ipyparallel prints its log handlers there when it turns the streams over; whether a cell sees it is a matter of luck."""
    for name in ("Kernel", "IOPubThread"):
        monkeypatch.setattr(engine_app, name, getattr(engine_app, name))
    monkeypatch.setattr(engine_app, "print", print, raising=False)
    app.adapt_ipyparallel()
    log = logging.Logger("engine")
    log.addHandler(logging.NullHandler())
    engine = app.Engine(log=log, out_stream_factory=Stream, display_hook_factory=Hook)
    for name in ("stdout", "stderr", "displayhook"):
        monkeypatch.setattr(f"sys.{name}", None)  # what it is set to goes with the test
    engine.redirect_output(None)
    assert sys.stdout.written == []
