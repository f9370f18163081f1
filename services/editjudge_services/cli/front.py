"""`editjudge front`: tokens and keys of teams, and Envoy's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.local_stack import running_stack
from editjudge.base.terminal import print_notice, print_text

from ..front.local import load_last_tokens, read_values, validate
from ..front.values import CallClass, FrontValues, TokenAuthentication

if TYPE_CHECKING:
    from ..front.identity import TeamKeys


def token_command(team: str, days: float, class_: CallClass, values: Path | None) -> None:
    """Print a token for a team, and on standard error the settings for its client."""
    keys, tokens = _keys(), _read_tokens(values)
    if tokens.keys and Path(tokens.keys).resolve() != keys.public.resolve():
        raise ConfigError(
            f"the front door accepts tokens signed with the keys of {tokens.keys}",
            "ask the owner of those keys for a token",
        )
    is_new = team not in keys.list_teams()
    print_text(keys.issue_token(team, days, class_, tokens))
    state = running_stack()
    if is_new and state and state.front:
        print_notice(f"# {team} is new: the front door accepts its key within {tokens.key_cache_seconds} s")
    if state is None or state.front is None:
        print_notice(
            "# no front door runs here; editjudge up --front starts one\n"
            "# one in a cluster knows the teams whose keys are in its ConfigMap:\n"
            f"# put {keys.public} there"
        )
        return
    print_notice(
        f"# editjudge.toml of team {team}; beside it the token as {team}.token, and as ca.pem\n"
        f"# {state.front.ca}\n"
        f"[{'gateway' if state.gateway else 'endpoints.front'}]\n"
        f'url = "{state.front.url}"\nca_file = "ca.pem"\n'
        f'api_key = {{ file = "{team}.token" }}'
    )
    if state.gateway:
        print_notice("# the same three lines under [endpoints.front] reach Triton without the Judge service")


def teams_command(rotate: str | None, revoke: str | None) -> None:
    """List the teams that have a key, or change the key of one."""
    keys = _keys()
    if revoke:
        count = keys.revoke(revoke)
        print_text(f"revoked all tokens of {revoke}: {count} key{'s' if count > 1 else ''} deleted")
    if rotate:
        keys.rotate(rotate)
        print_text(f"further tokens of {rotate} have a new key; earlier ones expire as they state")
        print_notice(f"# the front door accepts it within {_read_tokens(None).key_cache_seconds} s")
    if not revoke and not rotate:
        for name in keys.list_teams():
            print_text(name)


def certificate_command(team: str, days: float, out: Path) -> None:
    """Write a client certificate for a team, for a front door with the value `client_ca`."""
    _keys()
    from ..front.identity import Authority, front_folder

    authority = Authority(front_folder())
    chain, key = authority.issue_client_certificate(team, days, out)
    print_text(f'cert_file = "{chain}"\nkey_file = "{key}"')
    print_notice(f"# the front door's value client_ca is {authority.certificate}")


def render_command(values: Path, out: Path, *, check: bool) -> None:
    """Write Envoy's configuration from the values of a YAML file."""
    from ..front import render as rendering

    front_values = validate(FrontValues, read_values(values), str(values))
    if check:
        rendering.render_and_check(front_values, out, str(values))
        print_text(f"{values}: Envoy accepts the configuration")
    else:
        file = rendering.render(front_values, out)
        print_text(f"wrote {file}; start Envoy with it: envoy -c {file}")


def serve_command(values: Path, out: Path) -> None:
    """Run the front door with the values of a YAML file until SIGTERM; for containers."""
    from ..front.server import run_front

    run_front(validate(FrontValues, read_values(values), str(values)), out)


def _read_tokens(values: Path | None) -> TokenAuthentication:
    """The part `tokens` of a file of values, or of the front door that last ran here."""
    from ..front.identity import front_folder

    if values is None:
        return load_last_tokens(front_folder()) or TokenAuthentication(keys="")
    tokens = read_values(values).get("tokens", {})
    with_keys = {"keys": "", **tokens} if isinstance(tokens, dict) else tokens
    return validate(TokenAuthentication, with_keys, f"{values}: tokens")


def _keys() -> TeamKeys:
    try:
        from ..front.identity import TeamKeys, front_folder
    except ImportError as error:
        raise MissingExtra("the front door", "front") from error
    return TeamKeys(front_folder())
