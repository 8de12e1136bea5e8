"""`bee db`: what it prints, what it does, with which code it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from bee_pg import migrate
from tests.servers import PgServer
from tests.stores.pg_migrations.support import apply_now, ask, catalog, one_more, psql, role, steps

from .conftest import Bee

LATEST = migrate.latest()
NOWHERE = "postgresql://ada:s3cr3t@127.0.0.1:1/shop"


def deeds(verb: str, functions: str) -> list[str]:
    migrations = [f"{verb} {name}" for name in steps() if name != migrate.FUNCTIONS]
    return [*migrations, functions]


def test_plan_says_what_would_be_done_and_does_nothing(bee: Bee, pg: PgServer) -> None:
    url = pg.database()

    answer = bee("db", "plan", "--url", url)

    *said, last = answer.output.splitlines()
    todo = deeds("would apply", "would write the functions")
    assert ["schema 'bee' is not there yet", *todo] == said
    assert last.startswith("run: bee db apply --url 'postgresql://")
    assert 0 == answer.exit_code
    assert [] == ask(url, "select from pg_namespace where nspname = 'bee'")


def test_plan_of_an_upgrade(bee: Bee, pg: PgServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = pg.database()
    apply_now(url)
    more = one_more(monkeypatch)
    monkeypatch.setenv("BEE_URL", url)

    answer = bee("db", "plan")

    assert [
        f"schema 'bee' is at version {LATEST.version}",
        f"would apply {more}",
        "would write the functions anew",
        "run: bee db apply",
    ] == answer.output.splitlines()


def test_apply_prints_each_step_and_then_has_nothing_to_do(bee: Bee, pg: PgServer) -> None:
    url = pg.database()

    first, second = (bee("db", "apply", "--url", url) for _ in range(2))

    at = f"schema 'bee' is at version {LATEST.version}"
    done = deeds("applying", "writing the functions")
    assert [*done, f"done: {at}"] == first.output.splitlines()
    assert f"nothing to do: {at}\n" == second.output
    assert (0, 0) == (first.exit_code, second.exit_code)
    assert f"nothing to do: {at}\n" == bee("db", "plan", "--url", url).output
    assert f"fine: {at}\n" == bee("db", "check", "--url", url).output


def test_check_of_an_empty_database(bee: Bee, pg: PgServer) -> None:
    answer = bee("db", "check", "--url", pg.database(), "--schema", "jobs")

    assert 1 == answer.exit_code
    assert "no schema 'jobs'" in answer.output
    assert answer.output.endswith("' --schema jobs\n")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("insert into bee.version (number, functions) values (999, '')", "upgrade bee-jobs"),
        ("update bee.version set functions = 'others'", "Run: bee db apply --url '"),
    ],
)
def test_check_of_a_schema_of_another_bee(bee: Bee, pg: PgServer, change: str, says: str) -> None:
    url = pg.database()
    apply_now(url)
    ask(url, change)

    answer = bee("db", "check", "--url", url)

    assert 1 == answer.exit_code
    assert says in answer.output


def test_check_of_an_older_schema(bee: Bee, pg: PgServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = pg.database()
    apply_now(url)
    one_more(monkeypatch)
    monkeypatch.setenv("BEE_URL", url)

    answer = bee("db", "check")

    assert 1 == answer.exit_code
    assert answer.output.endswith(f"this bee needs {LATEST.version + 1}. Run: bee db apply\n")


@pytest.mark.parametrize("command", ["plan", "apply", "sql"])
def test_a_newer_schema_is_refused(bee: Bee, pg: PgServer, command: str) -> None:
    url = pg.database()
    apply_now(url)
    ask(url, "insert into bee.version (number, functions) values (999, '')")

    answer = bee("db", command, "--url", url)

    assert 1 == answer.exit_code
    assert "" == answer.stdout
    assert "upgrade bee-jobs" in answer.stderr


def test_plan_and_check_as_json(bee: Bee, pg: PgServer) -> None:
    url = pg.database()
    wanted = {"wanted_version": LATEST.version, "wanted_functions": LATEST.functions}
    nothing = {"schema": "bee", "version": None, "functions": None, **wanted}
    all_of_it = {
        "schema": "bee",
        "version": LATEST.version,
        "functions": LATEST.functions,
        **wanted,
    }

    plan, check = (bee("db", command, "--url", url, "--json") for command in ("plan", "check"))
    assert nothing | {"steps": steps()} == json.loads(plan.output)
    problem = json.loads(check.output).pop("problem")
    assert nothing | {"ok": False, "problem": problem} == json.loads(check.output)
    assert "no schema 'bee'" in problem
    assert (0, 1) == (plan.exit_code, check.exit_code)

    apply_now(url)
    plan, check = (bee("db", command, "--url", url, "--json") for command in ("plan", "check"))
    assert all_of_it | {"steps": []} == json.loads(plan.output)
    assert all_of_it | {"ok": True, "problem": None} == json.loads(check.output)
    assert (0, 0) == (plan.exit_code, check.exit_code)


def test_the_command_to_run_is_about_the_same_schema(
    bee: Bee, pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pg.database()
    monkeypatch.setenv("BEE_URL", f"{url}&schema=jobs")

    of_the_url, another = bee("db", "plan").output, bee("db", "plan", "--schema", "bee").output

    assert of_the_url.endswith("\nrun: bee db apply --schema jobs\n")
    assert another.endswith(f"\nrun: bee db apply --url '{url}'\n")


def test_sql_needs_no_database_and_works_in_psql(
    bee: Bee, pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEE_URL", NOWHERE)
    applied, scripted = pg.database(), pg.database()
    apply_now(applied)

    answer = bee("db", "sql")
    run = psql(pg, scripted, answer.output)

    assert 0 == answer.exit_code
    assert (0, "", "") == (run.returncode, run.stdout, run.stderr)
    assert catalog(applied) == catalog(scripted)


def test_sql_takes_the_schema_of_the_configured_url(
    bee: Bee, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEE_URL", f"{NOWHERE}?schema=jobs")

    assert 'search_path to "jobs"' in bee("db", "sql").output
    assert 'search_path to "other"' in bee("db", "sql", "--schema", "other").output


def test_sql_of_a_database_is_what_it_lacks(
    bee: Bee, pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pg.database()
    apply_now(url)
    assert bee("db", "sql", "--url", url).output.startswith("-- Nothing to do")
    one_more(monkeypatch)

    script = bee("db", "sql", "--url", url).output
    run = psql(pg, url, script)

    assert (0, "", "") == (run.returncode, run.stdout, run.stderr)
    assert "create table message" not in script
    assert 0 == bee("db", "check", "--url", url).exit_code


def test_the_url_is_found_where_it_always_is(
    bee: Bee, pg: PgServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_file, in_environment = pg.database(), pg.database()
    apply_now(in_file)
    (tmp_path / "bee.toml").write_text(f'url = "{in_file}"\n')

    assert 0 == bee("db", "check").exit_code
    monkeypatch.setenv("BEE_URL", in_environment)
    assert 1 == bee("db", "check").exit_code
    assert 0 == bee("db", "check", "--url", in_file).exit_code


def test_the_schema_is_that_of_the_url_unless_another_is_given(bee: Bee, pg: PgServer) -> None:
    url = pg.database()

    assert 0 == bee("db", "apply", "--url", f"{url}&schema=jobs").exit_code

    assert 0 == bee("db", "check", "--url", url, "--schema", "jobs").exit_code
    assert 1 == bee("db", "check", "--url", f"{url}&schema=jobs", "--schema", "bee").exit_code


@pytest.mark.parametrize("command", ["plan", "apply", "sql", "check"])
@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://:s3cr3t@localhost", "bee db is for PostgreSQL. --url is redis://:***@localhost"),
        ("nonsense", "bee db is for PostgreSQL"),
        ("", "bee db is for PostgreSQL"),
        (f"{NOWHERE}?colour=red", "colour"),
        (f"{NOWHERE}?pool_size=s", "pool_size must be a whole number"),
        (f"{NOWHERE}?schema=", "schema must be a name"),
    ],
)
def test_a_url_that_cannot_be_used_is_wrong_use(
    bee: Bee, command: str, url: str, says: str
) -> None:
    answer = bee("db", command, "--url", url)

    assert 2 == answer.exit_code
    assert says in answer.stderr
    assert "s3cr3t" not in answer.stderr


@pytest.mark.parametrize("command", ["plan", "apply", "check"])
def test_without_any_url_it_says_how_to_give_one(bee: Bee, command: str) -> None:
    answer = bee("db", command)

    assert 2 == answer.exit_code
    assert "The configured URL is memory://: give --url postgresql://" in answer.stderr


@pytest.mark.parametrize("words", [("--schema", "x" * 64), ("--wait", "0"), ("--colour",), ("x",)])
def test_wrong_use(bee: Bee, words: tuple[str, ...]) -> None:
    assert 2 == bee("db", "apply", "--url", NOWHERE, *words).exit_code


@pytest.mark.parametrize("command", ["plan", "apply", "sql", "check"])
def test_a_database_that_is_not_there(bee: Bee, command: str) -> None:
    answer = bee("db", command, "--url", NOWHERE)

    assert 3 == answer.exit_code
    assert "cannot connect to PostgreSQL" in answer.stderr
    assert "s3cr3t" not in answer.output


def test_a_database_that_refuses(bee: Bee, pg: PgServer) -> None:
    _, as_nobody = role(pg, pg.database())

    answer = bee("db", "apply", "--url", as_nobody)

    assert 3 == answer.exit_code
    assert "may not migrate schema 'bee'" in answer.stderr


def test_a_database_that_is_silent(bee: Bee, pg: PgServer) -> None:
    url = pg.database()
    with pg.frozen():
        answer = bee("db", "check", "--url", f"{url}&deadline=0.3")

    assert 3 == answer.exit_code


def test_a_database_that_falls_silent(bee: Bee, pg: PgServer) -> None:
    url = pg.database()
    apply_now(url)

    with psycopg.connect(url) as connection:
        connection.execute("lock table bee.version in access exclusive mode")
        answer = bee("db", "check", "--url", f"{url}&deadline=0.3")

    assert 3 == answer.exit_code
    assert "PostgreSQL did not answer in time" in answer.stderr


@pytest.mark.parametrize("command", ["plan", "apply", "sql", "check"])
def test_without_psycopg_it_says_what_to_install(command: str) -> None:
    program = "import sys; sys.modules['psycopg'] = None; from bee_core.cli import main; main()"
    words = ["db", command, "--url", NOWHERE]

    answer = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)

    assert 3 == answer.returncode
    assert 'pip install "bee-jobs[pg]"' in answer.stderr
    assert "Traceback" not in answer.stderr
