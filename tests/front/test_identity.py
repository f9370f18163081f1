"""Who may come in by other ways than the local keys: certificates, keys fetched over https."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web
from cryptography import x509

from editjudge.app.doctor import check_services
from editjudge.base.config import JudgeEndpoint
from editjudge.base.probes import probe_inputs
from editjudge.panel import Panel
from editjudge.panel.openai.http import _make_tls_context
from editjudge_services.front.identity import TeamKeys
from editjudge_services.front.values import TokenAuthentication
from editjudge_services.runtime.triton_server import TritonServer

from ..patience import until
from .door import LIVE, NOBODY, OK, Door, open_door


async def test_without_a_certificate_there_is_no_connection_where_one_is_asked_for(
    triton: TritonServer, tmp_path: Path
) -> None:
    strange = trustme.CA().issue_cert("vision")
    strange.private_key_pem.write_to_path(tmp_path / "strange.key")
    strange.cert_chain_pems[0].write_to_path(tmp_path / "strange.pem")
    other = {"cert_file": tmp_path / "strange.pem", "key_file": tmp_path / "strange.key"}
    async with open_door(tmp_path, triton, client_ca=tmp_path / "ca.pem") as door:
        token = door.token("vision")
        cert, key = door.authority.issue_client_certificate("vision", 1, tmp_path)
        shown = {"cert_file": cert, "key_file": key}
        async with Panel(door.settings(token, **shown)) as panel:
            assert await panel.call("quality.piqe", probe_inputs("quality"))
        assert await list_judges(door, token, **shown) == 404
        with pytest.raises(aiohttp.ClientError):
            await list_judges(door, token)
        for refused in ({}, other):
            (finding,) = await check_services(door.settings(token, **refused))
            assert finding.problem
            assert "certificate" in finding.fix
        assert {call["team"] for call in door.read_calls() if call["server"]} == {"vision"}


async def list_judges(door: Door, token: str, **shown: Path) -> int:
    """What the door says to the client of judges, under a path where nothing is."""
    judge = JudgeEndpoint(url=f"https://{door.target}/v1", ca_file=door.authority.certificate, **shown)
    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {token}"}) as session:
        async with session.get(f"{judge.url}/models", ssl=_make_tls_context(judge) or True) as reply:
            return reply.status


class Provider:
    """A provider of identities: its keys over https."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = TeamKeys(folder / "provider")
        self._ca = trustme.CA()
        self.ca = folder / "provider.pem"
        self._ca.cert_pem.write_to_path(self.ca)

    def token(self, team: str) -> str:
        tokens = TokenAuthentication(keys="", issuer="id", team_claim="department")
        return self.keys.issue_token(team, 1, "batch", tokens)

    async def _jwks(self, _: web.Request) -> web.Response:
        return web.Response(body=self.keys.public.read_bytes(), content_type="application/json")

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._ca.issue_cert("localhost").configure_cert(tls)
        app = web.Application()
        app.router.add_get("/keys", self._jwks)
        runner = web.AppRunner(app, shutdown_timeout=0.5)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
            yield f"https://localhost:{runner.addresses[0][1]}/keys"
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def open_provided_door(triton: TritonServer, folder: Path, **more: Any) -> AsyncIterator[tuple[Door, Provider]]:
    provider = Provider(folder)
    provider.token("vision")
    async with provider.serving() as url:
        tokens = {"keys": url, "ca": provider.ca, "issuer": "id", "team_claim": "department"}
        tokens |= {"key_cache_seconds": 1, **more}
        async with open_door(folder, triton, tokens=tokens) as door:
            yield door, provider


async def test_keys_are_fetched_from_a_provider_and_taken_back_there(triton: TritonServer, tmp_path: Path) -> None:
    async with open_provided_door(triton, tmp_path) as (door, provider):
        token = provider.token("vision")
        await door.answers(token, OK)
        assert door.read_calls()[-1]["team"] == "vision"
        assert await door.alive(door.token("vision")) == NOBODY
        late = provider.token("late")
        await door.answers(late, OK)
        provider.keys.revoke("vision")
        await door.answers(token, NOBODY)
        assert await door.alive(late) == OK


async def test_keys_of_a_provider_that_nobody_vouches_for_are_not_taken(triton: TritonServer, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "others.pem")
    async with open_provided_door(triton, tmp_path, ca=tmp_path / "others.pem") as (door, provider):
        code, words = await door.ask("ServerLive", LIVE, provider.token("vision"))
        assert code == NOBODY
        assert "Jwks remote fetch is failed" in words


async def test_a_certificate_is_renewed_while_the_door_runs(triton: TritonServer, tmp_path: Path) -> None:
    async with open_door(tmp_path, triton) as door:
        token = door.token("vision")
        await door.answers(token, OK)
        tls = door.tls

        def read_serial_number() -> int:
            with socket.create_connection(door.address, timeout=60) as plain:
                with tls.wrap_socket(plain, server_hostname="localhost") as secure:
                    der = secure.getpeercert(binary_form=True)
            assert der is not None
            return x509.load_der_x509_certificate(der).serial_number

        before = read_serial_number()
        door.authority.server.unlink()
        door.authority.renew_certificate(("localhost", "127.0.0.1"))
        await until(lambda: read_serial_number() != before)
        assert await door.alive(token) == OK
