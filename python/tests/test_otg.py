import json
import urllib.request

import pytest

import kpps

if not hasattr(kpps, "otg"):
    pytest.skip("a build without ports", allow_module_level=True)


def ask(server, path):
    with urllib.request.urlopen(server.location + path, timeout=60) as answer:
        return json.load(answer)


def test_a_server_listens_and_ends():
    with kpps.otg(port=["eth1=packet:none1", "eth2=packet:none2"], http=True, grpc="127.0.0.1:0") as server:
        assert server.location.startswith("http://127.0.0.1:") and server.grpc.startswith("127.0.0.1:")
        assert ask(server, "/capabilities/version")["app_version"].startswith("kpps ")
        # Several at a time.
        with kpps.otg(port="eth1=packet:none1", http=True) as other:
            assert other.location != server.location and ask(other, "/config") == {}
    with pytest.raises(OSError):
        ask(server, "/config")


def test_mistakes_are_errors_of_kpps():
    with pytest.raises(kpps.InputError, match="is not a port"):
        kpps.otg(port="nonsense")
    with pytest.raises(kpps.InputError, match="has no ports="):
        kpps.otg(ports="eth1=packet:none1")
    with pytest.raises(kpps.InputError, match="open to other hosts"):
        kpps.otg(port="eth1=packet:none1", listen="0.0.0.0:0")
