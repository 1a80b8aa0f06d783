"""Answers, refusals and silences of an API server, and the kubeconfig."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube import ApiError
from lightkube.resources.core_v1 import Node, Pod

from leadline.connect.kubernetes.client import Connection, KubernetesAccess, format_rule
from leadline.errors import LeadlineError
from tests.unit.connect.kubernetes.api_double import (
    CLOSED,
    Answer,
    ApiDouble,
    Asked,
    json_of,
    listing,
    refusal,
)

NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}
RBAC = (
    'pods is forbidden: User "bob" cannot list resource "pods" in API group "" at the cluster scope'
)
SECURITY = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
LIMITS = 'pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2'
QUOTA = 'pods "x" is forbidden: exceeded quota: q, requested: pods=3, used: pods=0, limited: pods=1'
ENDING = (
    'pods "x" is forbidden: unable to create new content in namespace ns because it is being '
    "terminated"
)
WEBHOOK = 'admission webhook "no.example" denied the request: not today'
TIRED = refusal(429, "too many requests", "TooManyRequests")


def nodes(connection: Connection) -> list[str]:
    found = connection.ask("list", "nodes", lambda client: list(client.list(Node)))
    return [str(item.metadata.name) for item in found if item.metadata]


def pods(connection: Connection) -> object:
    return connection.ask(
        "list",
        "pods",
        lambda client: list(client.list(Pod, namespace="ns")),
        namespace="ns",
    )


def raised(call: Callable[[], object]) -> LeadlineError:
    with pytest.raises(LeadlineError) as caught:
        call()
    return caught.value


def reported(error: LeadlineError) -> str:
    return "\n".join([error.fact, *error.context, error.hint or ""])


def in_turn(answers: Sequence[Answer]) -> Callable[[Asked], Answer]:
    """One answer after the other; the last for ever."""
    left = list(answers)
    return lambda asked: left.pop(0) if len(left) > 1 else left[0]


_THREADS = """
import sys, threading
from pathlib import Path
from leadline.connect.kubernetes.client import Connection, KubernetesAccess
from lightkube.core.decoders import decode_list, decode_object
from lightkube.resources.core_v1 import Event, PersistentVolumeClaim, Pod

Connection(KubernetesAccess(kubeconfig=Path(sys.argv[1]))).client
sys.setswitchinterval(1e-6)
together = threading.Barrier(4)

def decode():
    together.wait()
    decode_object(b'{"spec": {"containers": [{"name": "fio"}]}}', Pod)
    decode_object(b'{"spec": {"accessModes": ["ReadWriteOnce"]}}', PersistentVolumeClaim)
    decode_list(b'{"items": []}', Event)

threads = [threading.Thread(target=decode) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_threads_decode_their_first_answers_at_once(api: ApiDouble, tmp_path: Path) -> None:
    """msgspec 0.22.0 ends the process with SIGSEGV where the classes were never decoded before."""
    call = [sys.executable, "-c", _THREADS, str(api.kubeconfig(tmp_path))]
    assert subprocess.run(call, check=False).returncode == 0


def test_an_answer_is_an_answer(api: ApiDouble, tmp_path: Path) -> None:
    api.say = lambda asked: listing(NODE)
    with api.connection(tmp_path) as connection:
        assert nodes(connection) == ["n1"]
        assert connection.context == "lab"
    assert api.asked[0].token == "secret"


@pytest.mark.parametrize(
    ("code", "message", "kind", "said"),
    [
        (401, "Unauthorized", "kubernetes-denied", "does not know this user"),
        (403, RBAC, "kubernetes-denied", 'resources: ["pods"], verbs: ["list"]'),
        (403, QUOTA, "quota-exceeded", "limited: pods=1"),
        (403, SECURITY, "kubernetes-failed", "violates PodSecurity"),
        (403, LIMITS, "kubernetes-failed", "maximum cpu usage per Container"),
        (403, ENDING, "kubernetes-failed", "the namespace 'ns' is being deleted"),
        (403, WEBHOOK, "kubernetes-failed", "not today"),
        (400, WEBHOOK, "kubernetes-failed", "not today"),
        (422, "spec.size: Invalid value", "kubernetes-failed", "Invalid value"),
    ],
)
def test_a_refusal_is_reported_at_once_for_what_it_is(
    api: ApiDouble, tmp_path: Path, code: int, message: str, kind: str, said: str
) -> None:
    api.say = lambda asked: refusal(code, message)
    with api.connection(tmp_path, patience_s=600) as connection:
        error = raised(lambda: pods(connection))
    assert error.kind.code == kind
    assert said in reported(error)
    assert len(api.asked) == 1


@pytest.mark.parametrize("code", [404, 409])
def test_what_is_not_there_or_there_already_is_for_the_caller(
    api: ApiDouble, tmp_path: Path, code: int
) -> None:
    api.say = lambda asked: refusal(code, "so it is")
    with api.connection(tmp_path) as connection, pytest.raises(ApiError) as caught:
        pods(connection)
    assert caught.value.status.code == code


@pytest.mark.parametrize(
    "before",
    [
        [TIRED, TIRED],
        [refusal(503, "not ready yet")],
        [refusal(500, "etcdserver: leader changed")],
        [CLOSED, CLOSED],
        [Answer(status=502, body=b"<html>Bad Gateway</html>", kind="text/html")],
    ],
)
def test_a_server_that_is_away_for_a_while_is_asked_again(
    api: ApiDouble, tmp_path: Path, before: list[Answer]
) -> None:
    api.say = in_turn([*before, listing(NODE)])
    with api.connection(tmp_path) as connection:
        assert nodes(connection) == ["n1"]
    assert len(api.asked) == len(before) + 1


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (TIRED, "kubernetes-failed", "too many requests"),
        (CLOSED, "kubernetes-unreachable", "does not answer"),
        (Answer(status=503, body=b"no", kind="text/plain"), "kubernetes-failed", "status 503"),
    ],
)
def test_patience_ends(
    api: ApiDouble, tmp_path: Path, answer: Answer, kind: str, said: str
) -> None:
    api.say = lambda asked: answer
    for patience_s in (0.2, 2, 20):
        api.asked.clear()
        with api.connection(tmp_path, patience_s=patience_s) as connection:
            error = raised(lambda: nodes(connection))
        assert error.kind.code == kind
        assert said in reported(error)
        if len(api.asked) > 1:
            return
        # On a busy machine the first answer alone may take longer.
    pytest.fail("it never asked again")


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (Answer(body=b"<html>hello</html>", kind="text/html"), "kubernetes-failed", "not underst"),
        (Answer(body=b'{"items": 7}'), "kubernetes-failed", "not understood"),
        (Answer(body=b""), "kubernetes-failed", "not understood"),
        (Answer(status=403, body=b"<html>", kind="text/html"), "kubernetes-denied", "status 403"),
        (
            Answer(status=404, body=b"404 page not found", kind="text/plain"),
            "kubernetes-failed",
            "",
        ),
    ],
)
def test_what_is_no_api_server_is_reported_at_once(
    api: ApiDouble, tmp_path: Path, answer: Answer, kind: str, said: str
) -> None:
    api.say = lambda asked: answer
    with api.connection(tmp_path, patience_s=600) as connection:
        error = raised(lambda: nodes(connection))
    assert error.kind.code == kind
    assert said in reported(error)
    assert len(api.asked) == 1


def test_a_port_without_a_listener(api: ApiDouble, tmp_path: Path) -> None:
    document = api.document()
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = written(tmp_path / "other", document)
    connection = Connection(KubernetesAccess(kubeconfig=path), patience_s=0.2)
    error = raised(lambda: nodes(connection))
    assert error.kind.code == "kubernetes-unreachable"
    assert "https://127.0.0.1:1" in reported(error)


def test_a_server_of_another_authority_is_not_asked_twice(api: ApiDouble, tmp_path: Path) -> None:
    document = api.document()
    del document["clusters"][0]["cluster"]["certificate-authority"]
    path = written(tmp_path / "other", document)
    connection = Connection(KubernetesAccess(kubeconfig=path), patience_s=600)
    error = raised(lambda: nodes(connection))
    assert error.kind.code == "kubernetes-unreachable"
    assert "CERTIFICATE_VERIFY_FAILED" in reported(error)


def test_a_kind_that_the_cluster_does_not_know_has_no_objects(
    api: ApiDouble, tmp_path: Path
) -> None:
    api.say = lambda asked: Answer(status=404, body=b"404 page not found", kind="text/plain")
    with api.connection(tmp_path) as connection:
        assert connection.listed("ceph.rook.io", "v1", "cephclusters", "CephCluster") == []


def test_objects_are_listed_with_all_their_fields(api: ApiDouble, tmp_path: Path) -> None:
    one = {"metadata": {"name": "a"}, "spec": {"anything": [1, {"b": None}]}}
    api.say = lambda asked: listing(one)
    with api.connection(tmp_path) as connection:
        found = connection.listed("ceph.rook.io", "v1", "cephclusters", "CephCluster", "rook-ceph")
    assert found[0]["spec"] == {"anything": [1, {"b": None}]}
    assert api.asked[0].path == "/apis/ceph.rook.io/v1/namespaces/rook-ceph/cephclusters"


# --- the kubeconfig ------------------------------------------------------------------------------


def written(path: Path, document: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def changed(document: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {**document, **parts}


BROKEN: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda good: "clusters: [", "while parsing"),
    (lambda good: "just words", "is no kubeconfig"),
    (lambda good: "", "is no kubeconfig"),
    (lambda good: {}, "no context is current (contexts: none)"),
    (
        lambda good: changed(good, **{"current-context": ""}),
        "no context is current (contexts: lab)",
    ),
    (lambda good: changed(good, **{"current-context": "lob"}), "there is no context 'lob'"),
    (lambda good: changed(good, clusters=[]), "names a cluster 'lab' without entry"),
    (lambda good: changed(good, users=[]), "names a user 'lab' without entry"),
    (lambda good: changed(good, users="many"), "'users' of a kubeconfig is a list"),
    (lambda good: changed(good, contexts=[{"name": "lab", "context": {}}]), ""),
    (
        lambda good: without_authority(
            user(good, {"client-certificate": "no.crt", "client-key": "no.key"})
        ),
        "",
    ),
    (
        lambda good: without_authority(user(good, {"auth-provider": {"name": "gcp"}})),
        "auth-provider not supported",
    ),
    (
        lambda good: without_authority(user(good, login("no-such-program", installHint="get it"))),
        "no program 'no-such-program' to log in with; get it",
    ),
]


def user(document: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    return changed(document, users=[{"name": "lab", "user": parts}])


def without_authority(document: dict[str, Any]) -> dict[str, Any]:
    """lightkube leaves the file that it writes an authority to for the garbage collector."""
    server = document["clusters"][0]["cluster"]["server"]
    return changed(document, clusters=[{"name": "lab", "cluster": {"server": server}}])


def login(command: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    called = {"apiVersion": f"client.authentication.k8s.io/{version}", "command": command}
    return {"exec": {**called, **more}}


@pytest.mark.parametrize(("make", "said"), BROKEN)
def test_a_kubeconfig_that_is_none_is_reported_with_what_is_wrong(
    api: ApiDouble, tmp_path: Path, make: Callable[[dict[str, Any]], Any], said: str
) -> None:
    path = written(tmp_path / "config", make(api.document()))
    error = raised(lambda: nodes(Connection(KubernetesAccess(kubeconfig=path))))
    assert error.kind.code == "cluster-unknown"
    assert said in reported(error)
    assert str(path) in reported(error)
    assert api.asked == []


def test_a_kubeconfig_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "nowhere"
    error = raised(lambda: nodes(Connection(KubernetesAccess(kubeconfig=missing))))
    assert error.kind.code == "cluster-unknown"
    assert f"there is no file {missing}" in error.fact
    monkeypatch.setenv("KUBECONFIG", str(missing))
    error = raised(lambda: nodes(Connection(KubernetesAccess())))
    assert f"KUBECONFIG names no file that is there: {missing}" in error.fact
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    error = raised(lambda: nodes(Connection(KubernetesAccess())))
    assert "and this is no pod" in error.fact


def test_an_unknown_context_is_reported_with_those_that_there_are(
    api: ApiDouble, tmp_path: Path
) -> None:
    access = KubernetesAccess(kubeconfig=api.kubeconfig(tmp_path), context="prod")
    error = raised(lambda: nodes(Connection(access)))
    assert "there is no context 'prod' (contexts: lab)" in error.fact


def test_a_context_as_oc_login_writes_it(api: ApiDouble, tmp_path: Path) -> None:
    """The contexts of two projects of a user, whose names have slashes and colons, and a token."""
    api.say = lambda asked: listing(NODE)
    host = "api-lab-example-com:6443"
    user = f"kube:admin/{host}"
    document = {
        **api.document(),
        "clusters": [{**api.document()["clusters"][0], "name": host}],
        "contexts": [
            {
                "name": f"{project}/{host}/kube:admin",
                "context": {"cluster": host, "namespace": project, "user": user},
            }
            for project in ("default", "storage-tests")
        ],
        "current-context": f"default/{host}/kube:admin",
        "users": [{"name": user, "user": {"token": "sha256~q2w3e4"}}],
    }
    path = written(tmp_path / "config", document)
    for context, project in ((None, "default"), (f"storage-tests/{host}/kube:admin",) * 2):
        expected = project.partition("/")[0]
        with Connection(KubernetesAccess(kubeconfig=path, context=context)) as connection:
            assert nodes(connection) == ["n1"]
            assert connection.context == f"{expected}/{host}/kube:admin"
            assert connection.project == expected
    assert {asked.token for asked in api.asked} == {"sha256~q2w3e4"}


def test_the_usual_file_is_taken_where_no_user_says_anything(
    api: ApiDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.say = lambda asked: listing(NODE)
    written(tmp_path / ".kube" / "config", api.document())
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with Connection(KubernetesAccess()) as connection:
        assert nodes(connection) == ["n1"]


def test_files_of_kubeconfig_count_together_and_the_first_counts_most(
    api: ApiDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kubectl merges them: contexts in one file, users in another, the first of a name."""
    api.say = lambda asked: listing(NODE)
    whole = api.document()
    first = written(
        tmp_path / "a" / "one",
        {"contexts": whole["contexts"], "users": [{"name": "other", "user": {"token": "x"}}]},
    )
    missing = tmp_path / "missing"
    second = written(
        tmp_path / "b" / "two",
        {
            "current-context": "lab",
            "users": [{"name": "lab", "user": {"tokenFile": "token"}}],
            "contexts": [{"name": "lab", "context": {"cluster": "wrong", "user": "wrong"}}],
        },
    )
    (tmp_path / "b" / "token").write_text("from a file\n")
    authority = tmp_path / "c" / "ca.crt"
    cluster = {"server": api.url, "certificate-authority": "ca.crt"}
    third = written(
        tmp_path / "c" / "three",
        {
            "current-context": "nothing",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": whole["users"],
        },
    )
    authority.write_bytes(Path(api.certificate).read_bytes())
    files = [str(item) for item in (first, missing, second, third)]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(files))
    with Connection(KubernetesAccess()) as connection:
        assert nodes(connection) == ["n1"]
        assert connection.context == "lab"
    assert api.asked[0].token == "from a file"


def test_a_context_without_a_user_asks_as_nobody(api: ApiDouble, tmp_path: Path) -> None:
    api.say = lambda asked: listing(NODE)
    document = api.document()
    document["contexts"][0]["context"] = {"cluster": "lab"}
    access = KubernetesAccess(kubeconfig=written(tmp_path / "config", document))
    with Connection(access) as connection:
        assert nodes(connection) == ["n1"]
    assert api.asked[0].token == ""


def test_the_proxy_of_a_cluster_is_used(api: ApiDouble, tmp_path: Path) -> None:
    document = api.document()
    document["clusters"][0]["cluster"]["proxy-url"] = "http://127.0.0.1:1"
    access = KubernetesAccess(kubeconfig=written(tmp_path / "config", document))
    error = raised(lambda: nodes(Connection(access, patience_s=0.1)))
    assert error.kind.code == "kubernetes-unreachable"
    assert api.asked == []


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_login_program_gives_the_token_and_is_reported_which_version_is_meant(
    api: ApiDouble, tmp_path: Path, version: str
) -> None:
    api.say = lambda asked: listing(NODE)
    program = tmp_path / "login"
    answer = json.dumps({"kind": "ExecCredential", "status": {"token": "given"}})
    program.write_text(
        f"#!/bin/sh\nprintf '%s' \"$KUBERNETES_EXEC_INFO\" >$0.info\necho '{answer}'\n"
    )
    program.chmod(0o755)
    with api.connection(tmp_path, **login("./login", version)) as connection:
        assert nodes(connection) == ["n1"]
    assert api.asked[0].token == "given"
    said = json.loads((tmp_path / "login.info").read_text())
    assert said["apiVersion"] == f"client.authentication.k8s.io/{version}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo 'session expired' >&2; exit 1", "session expired"),
        ("echo nonsense", "the login gave no token"),
        ("echo '{}'", "the login gave no token"),
    ],
)
def test_a_login_program_that_fails_is_reported_at_once(
    api: ApiDouble, tmp_path: Path, body: str, said: str
) -> None:
    program = tmp_path / "login"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    with api.connection(tmp_path, patience_s=600, **login("./login")) as connection:
        error = raised(lambda: nodes(connection))
    assert error.kind.code == "kubernetes-denied"
    assert said in reported(error)
    assert api.asked == []


@pytest.mark.parametrize(
    ("resource", "written_rule"),
    [
        ("pods", '{apiGroups: [""], resources: ["pods"], verbs: ["get"]}'),
        ("pods/exec", '{apiGroups: [""], resources: ["pods/exec"], verbs: ["get"]}'),
        ("jobs.batch", '{apiGroups: ["batch"], resources: ["jobs"], verbs: ["get"]}'),
        (
            "virtualmachineinstances.subresources.kubevirt.io/console",
            (
                '{apiGroups: ["subresources.kubevirt.io"], '
                'resources: ["virtualmachineinstances/console"], verbs: ["get"]}'
            ),
        ),
    ],
)
def test_a_rule_is_written_as_in_a_manifest(resource: str, written_rule: str) -> None:
    assert format_rule("get", resource) == written_rule
    assert yaml.safe_load(written_rule)["verbs"] == ["get"]


def test_a_secret_of_the_kubeconfig_is_in_no_error(api: ApiDouble, tmp_path: Path) -> None:
    api.say = lambda asked: json_of({}, 401)
    with api.connection(tmp_path) as connection:
        assert "secret" not in reported(raised(lambda: nodes(connection)))
