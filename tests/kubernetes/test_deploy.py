"""The chart, the krew manifest and the RBAC manifests, held against the real programs: Helm and
krew built from Go modules, and the API server."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline.connect.kubernetes import permissions
from tests.kubernetes import images
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import space
from tests.kubernetes.shipped import CHART, IMAGE, KREW, PLAN, RBAC, VALUES, Helm, clients

UNINSTALL = "weekly-leadline-uninstall"


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


def _rendered(helm: Helm, **values: Any) -> list[dict[str, Any]]:
    done = helm("template", "weekly", str(CHART), "-n", "bench", values=VALUES | values)
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def _of(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [item for item in objects if item["kind"] == kind]


class TestChart:
    def test_lint(self, helm: Helm) -> None:
        done = helm("lint", "--strict", str(CHART), values=VALUES)
        assert done.returncode == 0, done.stdout + done.stderr

    def test_it_is_packed_with_its_manifests_and_its_script(
        self, helm: Helm, tmp_path: Path
    ) -> None:
        assert helm("package", str(CHART), "-d", str(tmp_path)).returncode == 0
        (packed,) = tmp_path.glob("leadline-*.tgz")
        with tarfile.open(packed) as tar:
            names = set(tar.getnames())
        wanted = {f"rbac/{path.name}" for path in RBAC.glob("*.yaml")} | {"files/run.sh"}
        assert {f"leadline/{name}" for name in wanted} <= names

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            ({"image": IMAGE}, "there is no plan"),
            (VALUES | {"existingPlan": "mine"}, "both given"),
            ({"plan": {"leadline": 1}}, "targets"),
            ({"plan": PLAN, "concurrencyPolicy": "Allow"}, "concurrencyPolicy"),
            ({"plan": PLAN, "schedule": "every night"}, "schedule"),
            ({"plan": PLAN, "judge": ["history"]}, "judge"),
            ({"plan": PLAN, "shedule": "@daily"}, "shedule"),
            ({"plan": PLAN}, "image.repository is missing"),
            ({"plan": PLAN, "image": {"digest": "sha256:abc"}}, "digest"),
            ({"plan": PLAN, "image": {"repository": "a/b@sha256:1"}}, "repository"),
            (VALUES | {"s3": {"enabled": True, "bucket": "b"}}, "s3.existingSecret"),
            (VALUES | {"results": {"persistence": False}}, "results would be lost"),
        ],
    )
    def test_wrong_values_are_refused(self, helm: Helm, values: dict[str, Any], said: str) -> None:
        done = helm("template", "weekly", str(CHART), values=values)
        assert done.returncode != 0
        assert said in done.stderr

    def test_an_own_namespace_takes_the_rules_of_run_yaml(self, helm: Helm) -> None:
        objects = _rendered(helm)
        (role,) = _of(objects, "ClusterRole")
        assert role["rules"] == _rules("run.yaml")[0]
        assert [item["metadata"]["name"] for item in _of(objects, "Role")] == [UNINSTALL]
        assert _bindings(objects) == {
            ("ClusterRoleBinding", role["metadata"]["name"]),
            ("RoleBinding", UNINSTALL),
        }

    def test_one_namespace_takes_the_narrow_rules(self, helm: Helm) -> None:
        objects = _rendered(
            helm,
            rbac={
                "scope": "namespace",
                "namespace": "runs",
                "vm": True,
                "retained": True,
                "kubelets": True,
            },
            cleanOnUninstall=False,
        )
        (role,) = _of(objects, "Role")
        within, everywhere = _rules("run-in-namespace.yaml")
        assert role["rules"] == within
        assert role["metadata"]["namespace"] == "runs"
        by_name = {item["metadata"]["name"]: item["rules"] for item in _of(objects, "ClusterRole")}
        assert by_name == {
            "bench-weekly-leadline-read": everywhere,
            "bench-weekly-leadline-run-vm": _rules("run-vm.yaml")[0],
            "bench-weekly-leadline-retained": _rules("retained.yaml")[0],
            "bench-weekly-leadline-kubelets": _rules("kubelets.yaml")[0],
        }
        # Machines in that namespace only, although their rules are a ClusterRole's.
        assert _bindings(objects) == {
            ("RoleBinding", "weekly-leadline-run"),
            ("RoleBinding", "bench-weekly-leadline-run-vm"),
            ("ClusterRoleBinding", "bench-weekly-leadline-read"),
            ("ClusterRoleBinding", "bench-weekly-leadline-retained"),
            ("ClusterRoleBinding", "bench-weekly-leadline-kubelets"),
        }
        for item in _of(objects, "RoleBinding"):
            assert item["metadata"]["namespace"] == "runs"
            assert item["subjects"][0]["namespace"] == "bench"

    def test_nothing_of_it_could_pass_for_a_runs_object(self, helm: Helm) -> None:
        objects = _rendered(helm)
        (cron,) = _of(objects, "CronJob")
        pods = cron["spec"]["jobTemplate"]["spec"]["template"]
        for item in (*objects, pods):
            assert item["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"

    def test_two_runs_never_overlap_and_a_failed_one_is_not_tried_again(self, helm: Helm) -> None:
        (cron,) = _of(_rendered(helm), "CronJob")
        assert cron["spec"]["concurrencyPolicy"] == "Forbid"
        job = cron["spec"]["jobTemplate"]["spec"]
        assert job["backoffLimit"] == 0
        assert job["template"]["spec"]["restartPolicy"] == "Never"
        assert job["template"]["spec"]["terminationGracePeriodSeconds"] >= 300

    def test_each_complete_run_is_judged(self, helm: Helm, tmp_path: Path) -> None:
        """The script as the chart renders it, with a stand-in for `leadline`."""
        program = tmp_path / "bin" / "leadline"
        program.parent.mkdir()
        program.write_text('#!/bin/sh\nprintf "[%s]" "$@"; echo; [ "$1" != gate ] || exit 5\n')
        program.chmod(0o755)
        judges = [["gate", "@previous", "it's $HOME"], ["history", "--band", 5]]
        objects = _rendered(helm, judge=judges, policy={"rules": [{"limit": "iops < -10%"}]})
        (script,) = [item for item in _of(objects, "ConfigMap") if "run.sh" in item["data"]]
        assert yaml.safe_load(script["data"]["policy.yaml"])["rules"][0]["limit"] == "iops < -10%"
        for name, text in script["data"].items():
            (tmp_path / name).write_text(text)
        done = subprocess.run(
            ["sh", str(tmp_path / "run.sh")],
            env={"PATH": f"{program.parent}:{os.environ['PATH']}", "LEADLINE_RUNS": "/results"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 5, done.stderr
        assert done.stdout.splitlines() == [
            "[run][/etc/leadline/plan.yaml][--quiet]",
            "[gate][@previous][it's $HOME]",
            "[history][--band][5]",
        ]

    @pytest.mark.parametrize(
        ("status", "reason"), [(7, "PodFailurePolicy"), (4, "BackoffLimitExceeded")]
    )
    def test_a_stop_by_the_guard_is_no_failure_like_others(
        self, helm: Helm, cluster: Cluster, status: int, reason: str
    ) -> None:
        (cron,) = _of(_rendered(helm), "CronJob")
        spec = cron["spec"]["jobTemplate"]["spec"]
        pod = spec["template"]["spec"]
        # The Job as it is, but for what the container does.
        for key in ("initContainers", "volumes", "serviceAccountName"):
            del pod[key]
        (container,) = pod["containers"]
        del container["volumeMounts"]
        script = f"echo 'error[some-code]: a fact' >&2; exit {status}"
        container |= {"image": images.RUNNER, "imagePullPolicy": "Never"}
        container["command"] = ["/bin/sh", "-c", script]
        with space(cluster, "guarded"):
            _make(cluster, "batch/v1", "Job", "now", namespace="guarded", spec=spec)
            path = "/apis/batch/v1/namespaces/guarded/jobs/now"

            def failed() -> dict[str, Any]:
                conditions = cluster.request(path)["status"].get("conditions", ())
                return next((item for item in conditions if item["type"] == "Failed"), {})

            cluster.until("the end of the Job", lambda: bool(failed()))
            assert failed()["reason"] == reason
            (ended,) = cluster.request("/api/v1/namespaces/guarded/pods")["items"]
            (container,) = ended["status"]["containerStatuses"]
            assert container["state"]["terminated"]["message"] == "error[some-code]: a fact\n"

    def test_uninstalling_stops_runs_first_and_then_cleans(self, helm: Helm) -> None:
        stop, clean = _of(_rendered(helm, pullSecrets=["pull"], stopSeconds=100), "Job")
        for number, job in enumerate((stop, clean)):
            notes = job["metadata"]["annotations"]
            assert notes["helm.sh/hook"] == "pre-delete"
            assert notes["helm.sh/hook-weight"] == str(number)
            pod = job["spec"]["template"]
            # By this label the Jobs do not stop themselves.
            assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "uninstall"
            assert pod["spec"]["imagePullSecrets"] == [{"name": "pull"}]
        (container,) = stop["spec"]["template"]["spec"]["containers"]
        given = {item["name"]: item.get("value") for item in container["env"]}
        assert (given["RELEASE"], given["CRONJOB"]) == ("weekly", "weekly-leadline")
        assert given["BOUND_S"] == "160"
        (container,) = clean["spec"]["template"]["spec"]["containers"]
        assert container["command"] == ["leadline", "clean"]
        volumes = {item["name"] for item in clean["spec"]["template"]["spec"]["volumes"]}
        assert {item["name"] for item in container["volumeMounts"]} <= volumes

    def test_openshift_chooses_the_user(self, helm: Helm) -> None:
        on = ("--api-versions", "security.openshift.io/v1")
        named = ("template", "weekly", str(CHART), "-n", "bench")
        for more, fields in ((on, set()), ((), {"runAsUser", "runAsGroup", "fsGroup"})):
            done = helm(*named, *more, values=VALUES)
            assert done.returncode == 0, done.stderr
            objects = [item for item in yaml.safe_load_all(done.stdout) if item]
            (cron,) = _of(objects, "CronJob")
            pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
            found = pod["securityContext"].keys() & {"runAsUser", "runAsGroup", "fsGroup"}
            assert found == fields
            assert pod["securityContext"]["runAsNonRoot"] is True

    def test_settings_of_the_pod_come_through(self, helm: Helm) -> None:
        taint = {"key": "bench", "operator": "Exists"}
        (cron,) = _of(
            _rendered(
                helm,
                args=["--name", "two words"],
                image={"repository": "r.example/l", "digest": "sha256:" + "a" * 64},
                pullSecrets=["pull"],
                nodeSelector={"pool": "bench"},
                tolerations=[taint],
                proxy={"https": "http://proxy.example:3128", "no": ".svc,10.0.0.0/8"},
                caConfigMap="authorities",
                existingPlan="",
                s3={"enabled": True, "bucket": "b", "prefix": "", "existingSecret": "keys"},
            ),
            "CronJob",
        )
        pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert pod["imagePullSecrets"] == [{"name": "pull"}]
        assert pod["nodeSelector"] == {"pool": "bench"}
        assert pod["tolerations"] == [taint]
        (run,), (clean,) = pod["containers"], pod["initContainers"]
        assert run["args"] == ["--name", "two words"]
        for item in (run, clean):
            assert item["image"] == "r.example/l@sha256:" + "a" * 64
            given = {variable["name"]: variable.get("value") for variable in item["env"]}
            assert given["https_proxy"] == given["HTTPS_PROXY"] == "http://proxy.example:3128"
            assert given["NO_PROXY"] == ".svc,10.0.0.0/8"
            assert given["SSL_CERT_FILE"] == "/etc/leadline-ca/ca.crt"
            assert "HTTP_PROXY" not in given
        # Only what copies gets the keys.
        secrets = {item["name"] for item in run["env"] if "valueFrom" in item}
        assert secrets == {
            "RCLONE_CONFIG_S3_ACCESS_KEY_ID",
            "RCLONE_CONFIG_S3_SECRET_ACCESS_KEY",
        }
        assert all("valueFrom" not in item for item in clean["env"])
        assert {item["name"]: item.get("value") for item in run["env"]}["S3_DESTINATION"] == "b"


def _rules(name: str) -> list[Any]:
    return [item["rules"] for item in yaml.safe_load_all((RBAC / name).read_text("utf-8"))]


def _bindings(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {
        (item["kind"], item["roleRef"]["name"])
        for item in objects
        if item["kind"] in ("RoleBinding", "ClusterRoleBinding")
    }


class TestKrew:
    @pytest.fixture
    def release(self, tmp_path: Path) -> Path:
        folder = tmp_path / "release"
        given = ["--uri", "https://downloads.example/a.tar.gz", "--homepage", "https://l.example"]
        command = ["python3", str(KREW / "render.py"), *given, "--to", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
        return folder

    def test_its_own_validator_takes_the_manifest(self, release: Path) -> None:
        manifest = f"-manifest={release / 'leadline.yaml'}"
        done = subprocess.run(
            [str(clients() / "validate-krew-manifest"), manifest, "-skip-install"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    def test_krew_refuses_the_template(self) -> None:
        manifest = f"-manifest={KREW / 'leadline.yaml'}"
        done = subprocess.run(
            [str(clients() / "validate-krew-manifest"), manifest, "-skip-install"],
            capture_output=True,
        )
        assert done.returncode != 0

    def test_krew_installs_it_from_the_archive(self, release: Path, tmp_path: Path) -> None:
        done = subprocess.run(
            [
                str(clients() / "krew"),
                "install",
                f"--manifest={release / 'leadline.yaml'}",
                f"--archive={release / 'kubectl-leadline.tar.gz'}",
            ],
            env=os.environ | {"KREW_ROOT": str(tmp_path / "krew")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        said = subprocess.run(
            [str(tmp_path / "krew" / "bin" / "kubectl-leadline"), "--version"],
            capture_output=True,
            text=True,
        )
        assert said.stdout.startswith("leadline, version "), said.stderr


class TestStop:
    """The first hook of an uninstallation, called here with the rights of an administrator."""

    def test_it_ends_runs_and_waits_for_their_cleaning(self, cluster: Cluster) -> None:
        with space(cluster, "stopping"):
            labels = {
                "app.kubernetes.io/name": "leadline",
                "app.kubernetes.io/instance": "weekly",
            }
            # What a run does when it is asked to stop takes its time.
            script = "trap 'sleep 3; exit 0' TERM; while :; do sleep 0.2; done"
            pod = {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 60,
                    "containers": [
                        {
                            "name": "leadline",
                            "image": images.RUNNER,
                            "imagePullPolicy": "Never",
                            "command": ["/bin/sh", "-c", script],
                            "securityContext": RESTRICTED,
                        }
                    ],
                },
            }
            cron = {
                "schedule": "0 3 1 1 *",
                "jobTemplate": {"spec": {"backoffLimit": 0, "template": pod}},
            }
            spaced = {"namespace": "stopping"}
            _make(cluster, "batch/v1", "CronJob", "weekly-leadline", spec=cron, **spaced)
            spec = {"backoffLimit": 0, "template": pod}
            _make(cluster, "batch/v1", "Job", "now", spec=spec, **spaced)
            other = {"metadata": {"labels": labels | {OWN: "uninstall"}}, "spec": pod["spec"]}
            spec = {"backoffLimit": 0, "template": other}
            _make(cluster, "batch/v1", "Job", "hook", spec=spec, **spaced)
            path = "/api/v1/namespaces/stopping/pods"

            def phases() -> dict[str, str]:
                found = cluster.request(path)["items"]
                return {
                    item["metadata"]["labels"]["job-name"]: item["status"]["phase"]
                    for item in found
                }

            cluster.until("both pods", lambda: set(phases().values()) == {"Running"})
            done = subprocess.run(
                [sys.executable, str(CHART / "files" / "stop.py")],
                env=os.environ
                | {
                    "KUBECONFIG": str(cluster.kubeconfig()),
                    "NAMESPACE": "stopping",
                    "RELEASE": "weekly",
                    "CRONJOB": "weekly-leadline",
                    "BOUND_S": "60",
                },
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
            assert phases() == {"hook": "Running"}
            crons = "/apis/batch/v1/namespaces/stopping/cronjobs"
            assert cluster.request(f"{crons}/weekly-leadline")["spec"]["suspend"] is True


OWN = "app.kubernetes.io/component"
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


class TestRbac:
    @pytest.fixture
    def account(self, api_server: Cluster) -> Iterator[str]:
        """A service account without rights, in a namespace of its own."""
        _make(api_server, "v1", "Namespace", "rbac-try")
        _make(api_server, "v1", "ServiceAccount", "tester", namespace="rbac-try")
        yield "system:serviceaccount:rbac-try:tester"
        api_server.request("/api/v1/namespaces/rbac-try", "DELETE")

    @pytest.mark.parametrize("name", sorted(path.name for path in RBAC.glob("*.yaml")))
    def test_the_api_server_takes_every_manifest(self, api_server: Cluster, name: str) -> None:
        for role in yaml.safe_load_all((RBAC / name).read_text("utf-8")):
            role["metadata"]["name"] += "-taken"
            taken = api_server.apply(role)
            assert taken["rules"] == role["rules"]
            plural = f"{role['kind'].lower()}s"
            where = "/namespaces/default" if role["kind"] == "Role" else ""
            path = f"/apis/rbac.authorization.k8s.io/v1{where}/{plural}/{taken['metadata']['name']}"
            api_server.request(path, "DELETE")

    def test_who_holds_run_in_namespace_may_do_it_there_and_nowhere_else(
        self, api_server: Cluster, account: str
    ) -> None:
        rules = permissions.RUN_RULES
        assert not any(_may(api_server, account, rule, "rbac-try") for rule in rules)
        roles = list(yaml.safe_load_all((RBAC / "run-in-namespace.yaml").read_text("utf-8")))
        made = []
        for role in roles:
            namespace = "rbac-try" if role["kind"] == "Role" else None
            role["metadata"]["name"] += "-bound"
            if namespace:
                role["metadata"]["namespace"] = namespace
            api_server.apply(role)
            binding = _binding(role, namespace)
            api_server.apply(binding)
            made.append((role, binding))
        try:
            # In force a moment after they are made.
            api_server.until(
                "the rights",
                lambda: all(_may(api_server, account, rule, "rbac-try") for rule in rules),
            )
            elsewhere = [rule for rule in rules if rule.namespaced]
            assert not any(_may(api_server, account, item, "default") for item in elsewhere)
            other = (*permissions.NAMESPACE_RULES, *permissions.RETAIN_RULES)
            assert not any(_may(api_server, account, item, "rbac-try") for item in other)
        finally:
            root = "/apis/rbac.authorization.k8s.io/v1"
            for role, binding in made:
                if role["kind"] == "ClusterRole":
                    name = role["metadata"]["name"]
                    api_server.request(f"{root}/clusterroles/{name}", "DELETE")
                    name = binding["metadata"]["name"]
                    api_server.request(f"{root}/clusterrolebindings/{name}", "DELETE")


def _make(
    cluster: Cluster, version: str, kind: str, name: str, *, namespace: str = "", **fields: Any
) -> Any:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata |= fields.pop("metadata", {})
    return cluster.apply({"apiVersion": version, "kind": kind, "metadata": metadata, **fields})


def _binding(role: dict[str, Any], namespace: str | None) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": {"name": role["metadata"]["name"], **where},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role["kind"],
            "name": role["metadata"]["name"],
        },
        "subjects": [{"kind": "ServiceAccount", "name": "tester", "namespace": "rbac-try"}],
    }


def _may(cluster: Cluster, user: str, asked: permissions.Rule, namespace: str) -> bool:
    resource, _, sub = asked.resource.partition("/")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "resourceAttributes": {
                "group": asked.group,
                "resource": resource,
                "subresource": sub,
                "verb": asked.verb,
                **({"namespace": namespace} if asked.namespaced else {}),
            },
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(cluster.request(path, "POST", review)["status"]["allowed"])
