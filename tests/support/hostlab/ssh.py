"""Real sshd on hosts of the lab, with keys made on the fly. Nothing of ~/.ssh or /etc/ssh is used."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hostlab.lab import Lab

START_SECONDS = 10.0


class SshLab:
    """Hosts that `head` may log into by name, as root, with `ssh -F config`. Ends with the lab's hosts."""

    def __init__(self, lab: Lab, hosts: Sequence[str] = ("a", "b"), client: str = "head") -> None:
        self.lab, self.hosts, self.client = lab, tuple(hosts), client
        self.folder = lab.folder / "ssh"

    @property
    def config(self) -> str:
        """For `ssh -F`."""
        return str(self.folder / "config")

    def up(self) -> None:
        self.folder.mkdir(mode=0o700)
        client = self.lab[self.client]
        for key in ("host", "user"):
            client.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key])
        public = (self.folder / "host.pub").read_text()
        (self.folder / "authorized").write_text((self.folder / "user.pub").read_text())
        (self.folder / "known").write_text("".join(f"{host} {public}" for host in self.lab.hosts))
        (self.folder / "sshd_config").write_text(
            f"HostKey {self.folder}/host\n"
            f"AuthorizedKeysFile {self.folder}/authorized\n"
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
            "Subsystem sftp internal-sftp\n"
        )
        (self.folder / "config").write_text(
            "Host *\n"
            f"  IdentityFile {self.folder}/user\n"
            "  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/known\n"
            "  GlobalKnownHostsFile /dev/null\n"
            "  StrictHostKeyChecking yes\n"
            "  ConnectTimeout 5\n"
        )
        for host in self.hosts:
            self.start_server(host)
        for host in self.hosts:
            self._wait_for(host)

    def start_server(self, host: str) -> None:
        self.lab[host].start(["/usr/sbin/sshd", "-D", "-e", "-f", self.folder / "sshd_config", "-o", "PidFile=none"])

    def _wait_for(self, host: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            said = self.lab[self.client].run(["ssh", "-F", self.config, host, "hostname"], check=False)
            if said.returncode == 0:
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"sshd on {host} does not answer: {said.stderr}")
            time.sleep(0.05)
