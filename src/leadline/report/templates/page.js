"use strict";
(function () {
  const root = document.documentElement;
  root.classList.add("js");

  // Theme: the system's, until the reader chooses.
  const key = "leadline-theme";
  const recall = () => { try { return localStorage.getItem(key); } catch (_) { return null; } };
  const keep = (value) => { try { localStorage.setItem(key, value); } catch (_) { /* private */ } };
  const stored = recall();
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const toggle = document.getElementById("theme");
  const tell = () => {
    toggle.textContent = dark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", dark() ? "Use light colours" : "Use dark colours");
  };
  toggle.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    keep(root.dataset.theme);
    tell();
  });
  tell();

  // Sorting: rows without a value always last.
  for (const table of document.querySelectorAll("table.filterable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        const sign = down ? -1 : 1;
        const number = head.classList.contains("number");
        const value = (row) => row.cells[column].dataset.sort;
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => {
          const x = value(a), y = value(b);
          if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
          return sign * (number ? x - y : x.localeCompare(y, undefined, { numeric: true }));
        });
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        table.tBodies[0].append(...rows);
      });
    });
  }

  // Filter: every word must be found in a row's text or in its workload's name.
  const box = document.getElementById("filter");
  const count = document.getElementById("filter-count");
  if (box) {
    const groups = [...document.querySelectorAll("#results [data-workload]")].map((section) => ({
      section,
      name: section.dataset.workload.toLowerCase(),
      rows: [...section.querySelectorAll("table.filterable tbody tr, .dots > li")].map((row) => ({
        row, text: row.textContent.toLowerCase(), counts: row.tagName === "TR",
      })),
    }));
    const apply = () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0, all = 0;
      for (const group of groups) {
        let any = false;
        for (const one of group.rows) {
          const text = group.name + " " + one.text;
          const fits = words.every((word) => text.includes(word));
          one.row.hidden = !fits;
          any = any || fits;
          if (one.counts) { all += 1; shown += fits; }
        }
        group.section.hidden = !any && words.length > 0;
        for (const figure of group.section.querySelectorAll("figure")) {
          figure.hidden = !figure.querySelector(".dots > li:not([hidden])");
        }
      }
      count.textContent = words.length ? shown + " of " + all + " rows" : "";
    };
    box.addEventListener("input", apply);
    apply();
  }

  // Downloads, made from the data in this page.
  const data = () => JSON.parse(document.getElementById("measurements").textContent);
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const columns = ["target", "workload", "level", "op", "metric", "value", "unit", "trials",
    "interval_low", "interval_high", "findings", "trial_values"];
  const csv = () => [columns.join(","), ...data().measurements.map((one) => [
    one.target, one.workload, one.level, one.op, one.metric, one.value, one.unit, one.trials,
    one.interval ? one.interval[0] : "", one.interval ? one.interval[1] : "",
    one.findings.join(" "), (one.values || []).map((value) => value.value).join(" "),
  ].map(quoted).join(","))].join("\n") + "\n";
  const offer = (id, kind, type, make) => {
    document.getElementById(id).addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([make()], { type }));
      link.download = document.getElementById("measurements").dataset.name + "." + kind;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  };
  offer("download-csv", "csv", "text/csv", csv);
  offer("download-json", "json", "application/json", () => JSON.stringify(data(), null, 2));

  // A link into a folded part opens it; paper shows everything.
  const unfold = () => {
    let id = "";
    try { id = decodeURIComponent(location.hash.slice(1)); } catch (_) { return; }
    const part = id && document.getElementById(id);
    for (let at = part; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (part) part.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  if (location.hash) unfold();
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
})();
