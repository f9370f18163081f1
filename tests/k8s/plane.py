"""A real control plane on loopback: etcd and kube-apiserver, of the folder KUBEBUILDER_ASSETS.

No controller and no node: what is shown to it is checked and kept, and nothing runs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from editjudge_services.runtime.process import reserve_ports

from ..patience import wait_until
from .chart import run_tool

ASSETS = Path(os.environ["KUBEBUILDER_ASSETS"]) if "KUBEBUILDER_ASSETS" in os.environ else None
NEEDED = ("etcd", "kube-apiserver")
_TOKEN = "of-a-test"
_READY_SECONDS = 120.0


def find_absence() -> str:
    """Why there is no control plane; "" where there is one."""
    if ASSETS is None:
        return "KUBEBUILDER_ASSETS is not set: nothing was shown to a real API server"
    absent = [name for name in NEEDED if not (ASSETS / name).is_file()]
    return f"{ASSETS} has no {', no '.join(absent)}" if absent else ""


class Plane:
    """A control plane that is ready.

    Args:
        kubeconfig: By which kubectl and helm find it.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.env = {"KUBECONFIG": str(kubeconfig)}

    def kubectl(self, *arguments: str, told: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl; it may fail."""
        return run_tool("kubectl", *arguments, told=told, **self.env)


@contextmanager
def control_plane(assets: Path, folder: Path) -> Iterator[Plane]:
    """A control plane for the duration of a block."""
    etcd, peer, secure = reserve_ports((0, 0, 0))
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    (folder / "account.key").write_bytes(key)
    (folder / "tokens.csv").write_text(f'{_TOKEN},tester,tester,"system:masters"\n')
    store = f"http://127.0.0.1:{etcd}"
    members = f"http://127.0.0.1:{peer}"
    with ExitStack() as running:
        running.enter_context(
            _run_process(
                folder / "etcd.log",
                assets / "etcd",
                *("--data-dir", str(folder / "etcd"), "--name", "one"),
                *("--listen-client-urls", store, "--advertise-client-urls", store),
                *("--listen-peer-urls", members, "--initial-advertise-peer-urls", members),
                *("--initial-cluster", f"one={members}"),
            )
        )
        running.enter_context(
            _run_process(
                folder / "kube-apiserver.log",
                assets / "kube-apiserver",
                *("--etcd-servers", store, "--bind-address", "127.0.0.1"),
                *("--secure-port", str(secure), "--cert-dir", str(folder / "pki")),
                *("--token-auth-file", str(folder / "tokens.csv"), "--authorization-mode", "RBAC"),
                *("--service-cluster-ip-range", "10.96.0.0/16"),
                *("--service-account-issuer", "https://judges.test"),
                *("--service-account-key-file", str(folder / "account.key")),
                *("--service-account-signing-key-file", str(folder / "account.key")),
                *("--disable-admission-plugins", "ServiceAccount"),
                *("--endpoint-reconciler-type", "none"),
                # Its own default refuses privileged pods before Pod Security is asked.
                "--allow-privileged=true",
            )
        )
        plane = Plane(_kubeconfig(folder / "kubeconfig", secure))
        wait_until(lambda: plane.kubectl("get", "--raw", "/readyz").stdout.strip() == "ok", _READY_SECONDS, pause=0.5)
        yield plane


@contextmanager
def _run_process(log: Path, *command: str | Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _kubeconfig(file: Path, port: int) -> Path:
    # The server signs its own certificate when it starts.
    cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": _TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    file.write_text(yaml.safe_dump(config))
    file.chmod(0o600)
    return file


def make_restricted(plane: Plane, namespace: str) -> None:
    """A namespace in which Pod Security refuses what is not restricted."""
    labels = {f"pod-security.kubernetes.io/{how}": "restricted" for how in ("enforce", "warn")}
    named = {"name": namespace, "labels": labels}
    thing = {"apiVersion": "v1", "kind": "Namespace", "metadata": named}
    done = plane.kubectl("apply", "--server-side", "-f", "-", told=yaml.safe_dump(thing))
    assert done.returncode == 0, done.stderr


def apply_dry(plane: Plane, things: Sequence[object]) -> str:
    """What the server says against objects; "" where it takes all of them without a warning."""
    done = plane.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"), told=yaml.safe_dump_all(things)
    )
    return done.stderr.strip() or ("refused" if done.returncode else "")
