"use strict";
(function () {
  const root = document.documentElement;
  root.classList.add("js");
  const all = (selector, from) => [...(from || document).querySelectorAll(selector)];

  // The choices of the reader are kept in the anchor (#results?filter=disk&metric=p99), so that a
  // copied link shows the same view.
  const parsed = () => {
    const [anchor, query] = location.hash.slice(1).split(/\?(.*)/s);
    let id = anchor;
    try { id = decodeURIComponent(anchor); } catch (_) { /* a broken link leads nowhere */ }
    return { id, chosen: query === undefined ? null : new URLSearchParams(query) };
  };
  let chosen = parsed().chosen || new URLSearchParams();
  const remember = (key, value) => {
    if (value) chosen.set(key, value); else chosen.delete(key);
    write(location.hash.slice(1).split("?")[0]);
  };
  const write = (anchor) => {
    const query = chosen.toString();
    const hash = "#" + anchor + (query ? "?" + query : "");
    if (location.hash !== hash && (query || location.hash)) history.replaceState(null, "", hash);
  };

  // Theme: the link's, else the reader's last one, else the system's.
  const key = "leadline-theme";
  const recall = () => { try { return localStorage.getItem(key); } catch (_) { return null; } };
  const keep = (value) => { try { localStorage.setItem(key, value); } catch (_) { /* private */ } };
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const toggle = document.getElementById("theme");
  const notify = () => {
    toggle.textContent = dark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", dark() ? "Use light colours" : "Use dark colours");
  };
  toggle.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    keep(root.dataset.theme);
    remember("theme", root.dataset.theme);
    notify();
  });
  const restoreTheme = () => {
    const wanted = chosen.get("theme") || recall();
    if (wanted === "dark" || wanted === "light") root.dataset.theme = wanted;
    notify();
  };

  const restorers = [];

  // Sorting: rows without a value always last.
  const sortable = all("table.filterable");
  const given = new Map(sortable.map((table) => [table, [...table.tBodies[0].rows]]));
  const sort = (table, column, down) => {
    const heads = [...table.tHead.rows[0].cells];
    const head = heads[column];
    if (!head) return;
    const sign = down ? -1 : 1;
    const number = head.classList.contains("number");
    const keys = new Map(given.get(table).map((row) => {
      const cell = row.cells[column];
      return [row, (cell.dataset.sort ?? (number ? "" : cell.textContent)) || undefined];
    }));
    fold();
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => {
      const x = keys.get(a), y = keys.get(b);
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      return sign * (number ? x - y : x.localeCompare(y, undefined, { numeric: true }));
    });
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    table.tBodies[0].append(...rows);
  };
  for (const table of sortable) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        sort(table, column, down);
        remember("sort." + table.id, column + (down ? "-down" : "-up"));
      });
    });
  }
  const restoreSorts = () => {
    for (const table of sortable) {
      const [column, way] = (chosen.get("sort." + table.id) || "").split("-");
      if (way) sort(table, Number(column), way === "down");
    }
  };

  // Filter: every word must be found in a row or in the headings above it, and every chosen target,
  // workload and level in the column of that name; a chart has them in its labels.
  const box = document.getElementById("filter") || document.createElement("input");
  const count = document.getElementById("filter-count") || box;
  const kinds = ["target", "workload", "level"];
  const kindOf = (head) => {
    const title = head.firstElementChild ? head.firstElementChild.textContent : "";
    return kinds.find((kind) => title === kind || title === kind + "s");
  };
  const heading = (row) => {
    const names = [];
    const part = row.closest("[data-part]");
    if (part) names.push(part.firstElementChild.textContent);
    const holder = row.closest("figure, table");
    const caption = holder && holder.querySelector("figcaption, caption");
    if (caption) names.push(caption.textContent);
    return names.join(" ").toLowerCase() + " ";
  };
  let lines = null;
  const values = new Map(kinds.map((kind) => [kind, new Set()]));
  const collect = () => {
    const names = new Map();
    let group = null;
    lines = all("table.filterable tbody tr, .rows > li, .curves > figure").map((row) => {
      const holder = row.parentElement;
      if (!names.has(holder)) { names.set(holder, heading(row)); group = null; }
      const own = [...row.children].map((child) => child.textContent).join(" ").toLowerCase();
      const line = { row, holder, text: names.get(holder) + (own || row.textContent.toLowerCase()) };
      if (row.className === "group") { line.below = []; group = line; }
      else if (group) { line.text += " " + group.row.textContent.toLowerCase(); group.below.push(row); }
      return line;
    });
    for (const table of sortable) {
      [...table.tHead.rows[0].cells].forEach((head, column) => {
        const kind = kindOf(head);
        if (!kind) return;
        for (const row of given.get(table)) {
          const text = row.cells[column].textContent;
          const parts = head.textContent.startsWith(kind + "s") ? text.split(", ") : [text];
          parts.forEach((part) => values.get(kind).add(part));
        }
      });
    }
  };
  const within = (text, name) => {
    const quoted = name.toLowerCase().replace(/[^\w\s]/g, "\\$&");
    return new RegExp("(^|[^\\w-])" + quoted + "(?![\\w-])").test(text);
  };
  const picked = new Map();
  const filter = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const names = [...picked.values()].map((select) => select.value).filter(Boolean);
    const narrowed = words.length + names.length > 0;
    if (!lines) { if (!narrowed) return; collect(); }
    fold();
    const left = new Map();
    let shown = 0, of = 0;
    const fits = ({ text }) =>
      words.every((word) => text.includes(word)) && names.every((name) => within(text, name));
    for (const line of lines) if (!line.below) line.row.hidden = !fits(line);
    for (const { row, holder, below } of lines) {
      if (below) { row.hidden = below.every((one) => one.hidden); continue; }
      left.set(holder, (left.get(holder) || 0) + !row.hidden);
      if (row.tagName === "TR" && !holder.closest(".unchosen")) { of += 1; shown += !row.hidden; }
    }
    for (const [holder, rows] of left) {
      (holder.closest("figure") || holder.closest(".scroll") || holder).hidden = !rows;
    }
    for (const part of all("[data-part]")) {
      const inside = [...left].filter(([holder]) => part.contains(holder));
      part.hidden = inside.length > 0 && inside.every(([, rows]) => !rows);
    }
    count.textContent = narrowed ? shown + " of " + of + " rows" : "";
  };
  box.addEventListener("input", () => { filter(); remember("filter", box.value.trim()); });

  // Selectors of the targets, workloads and levels that tables name.
  const MOST_OPTIONS = 200;
  const select = (kind) => {
    const names = [...values.get(kind)].filter(Boolean);
    if (names.length < 2 || names.length > MOST_OPTIONS) return;
    const made = document.createElement("select");
    made.id = "only-" + kind;
    made.setAttribute("aria-label", "Show one " + kind);
    made.append(new Option(kind + "s", ""), ...names.map((name) => new Option(name, name)));
    made.addEventListener("change", () => { filter(); remember(made.id, made.value); });
    picked.set(kind, made);
    box.before(made);
  };
  collect();
  kinds.forEach(select);
  const restoreFilter = () => {
    box.value = chosen.get("filter") || "";
    for (const made of picked.values()) {
      made.value = chosen.get(made.id) || "";
      if (made.selectedIndex < 0) made.selectedIndex = 0;
    }
    filter();
  };

  // The trials and the interval of each number of a row, below it.
  const fold = () => all("tr.more").forEach((row) => {
    row.previousElementSibling.querySelector("[aria-expanded]").ariaExpanded = "false";
    row.remove();
  });
  const unfold = (row, heads) => {
    const made = document.createElement("tr");
    made.className = "more";
    const cell = made.insertCell();
    cell.colSpan = row.cells.length;
    [...row.cells].forEach((one, column) => {
      const name = heads[column].firstElementChild.textContent;
      if (one.title) cell.append(name + ": " + one.title, document.createElement("br"));
    });
    row.after(made);
  };
  for (const table of sortable) {
    const heads = table.tHead.rows[0].cells;
    for (const row of given.get(table)) {
      const cells = [...row.cells];
      const explained = (cell) => cell.title && cell.matches(".n:not(.absent)");
      if (!cells.slice(1).some(explained)) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "unfold";
      button.ariaExpanded = "false";
      button.ariaLabel = "Details of " + cells.slice(0, 4).map((cell) => cell.textContent).join(" ");
      cells[0].prepend(button);
      row.addEventListener("click", (event) => {
        if (event.target.closest("a") || String(getSelection())) return;
        const open = button.ariaExpanded === "true";
        fold();
        if (!open) { unfold(row, heads); button.ariaExpanded = "true"; }
      });
    }
  }

  // Choices: of the parts that belong to one, only the chosen is shown.
  const selectors = all("select[data-chooses]");
  const choose = (select) => {
    const values = new Set([...select.options].map((option) => option.value));
    for (const part of all("[data-choice]")) {
      const value = part.dataset.choice;
      if (values.has(value)) part.classList.toggle("unchosen", value !== select.value);
    }
  };
  const set = (select, value) => {
    const option = [...select.options].findIndex((one) => one.value === value);
    select.selectedIndex = Math.max(0, option);
    choose(select);
  };
  for (const select of selectors) {
    select.addEventListener("change", () => {
      choose(select);
      filter();
      remember(select.id, select.value);
    });
  }
  const restoreChoices = () => selectors.forEach((one) => set(one, chosen.get(one.id)));

  // If the page has data-heat=:
  // Heat maps: shades and ratios against the row that the reader names (as charts/heat.py).
  const ratioText = (ratio) => {
    const digits = ratio < 10 ? 2 : ratio < 100 ? 1 : 0;
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    return "×" + ratio.toLocaleString("en", options);
  };
  const level = (ratio, better) => {
    const part = better * Math.log(ratio) / Math.log(4);
    const step = Math.round(6 * Math.min(Math.abs(part), 1));
    return (part < 0 && step ? "w" : "b") + step;
  };
  const shade = (table, baseline) => {
    const rows = given.get(table);
    const base = rows[baseline];
    rows.forEach((row) => row.classList.toggle("given", row === base));
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (!column) return;
      const figure = (cell) =>
        Number(cell.classList.contains("bad") ? NaN : cell.dataset.sort || NaN);
      const from = figure(base.cells[column]);
      for (const row of rows) {
        const cell = row.cells[column];
        const ratio = from > 0 && figure(cell) > 0 ? figure(cell) / from : NaN;
        cell.className = cell.classList.contains("bad") ? "n bad" : "n";
        cell.querySelector("small").textContent = ratio > 0 && row !== base ? ratioText(ratio) : "";
        if (ratio > 0) cell.classList.add(level(ratio, Number(head.dataset.better)));
      }
    });
  };
  const baselines = all("select[data-heat]");
  const mapOf = (select) => document.getElementById(select.dataset.heat);
  for (const select of baselines) {
    select.addEventListener("change", () => {
      shade(mapOf(select), select.selectedIndex);
      remember(select.id, select.value);
    });
  }
  const restoreBaselines = () => {
    for (const select of baselines) {
      const table = mapOf(select);
      const wanted = chosen.get(select.id) || table.dataset.given;
      if (select.value === wanted) continue;
      select.value = wanted;
      if (select.selectedIndex < 0) select.value = table.dataset.given;
      shade(table, select.selectedIndex);
    }
  };
  restorers.push(restoreBaselines);
  // End of that.

  // A table can be copied for a spreadsheet (TSV) or an issue (Markdown), as it is shown. A text that
  // a spreadsheet takes for a formula gets a ' in front.
  const texts = (row, markdown) => [...row.cells].map((cell) => {
    const shown = cell.cloneNode(true);
    all(".mark, button", shown).forEach((mark) => mark.remove());
    const text = shown.textContent.trim().replace(/\s+/g, " ");
    if (markdown) return text.replace(/[\\|`*_<>[\]]/g, "\\$&");
    return !cell.classList.contains("n") && /^[=+\-@＝＋－＠]/.test(text) ? "'" + text : text;
  });
  const copied = (table, markdown) => {
    const body = [...table.tBodies[0].rows].filter((row) => !row.hidden && row.className !== "more");
    const rows = [table.tHead.rows[0], ...body].map((row) => texts(row, markdown));
    if (!markdown) return rows.map((row) => row.join("\t") + "\n").join("");
    rows.splice(1, 0, rows[0].map(() => "---"));
    return rows.map((row) => "| " + row.join(" | ") + " |\n").join("");
  };
  const copyButton = (caption, form, what, copy) => {
    if (!navigator.clipboard) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.dataset.form = form;
    button.setAttribute("aria-label", "Copy this " + what + " as " + form);
    button.addEventListener("click", async () => {
      await copy();
      button.dataset.form = "copied";
      setTimeout(() => { button.dataset.form = form; }, 1200);
    });
    caption.append(button);
  };
  for (const table of all(".scroll table:not(.dots):not(.heat)")) {
    const caption = table.createCaption();
    for (const form of ["TSV", "Markdown"]) {
      const write = () => copied(table, form === "Markdown");
      copyButton(caption, form, "table", () => navigator.clipboard.writeText(write()));
    }
  }

  // A chart can be copied as it is shown: its drawings in place, its texts as text.
  const drawing = (figure) => {
    const frame = figure.getBoundingClientRect();
    const edge = 8;
    const made = ["", "width", "height"].map((key) => Math.ceil(frame[key] + 2 * edge) || 0);
    const root = document.createElementNS(figure.querySelector("svg").namespaceURI, "svg");
    const add = (name, attributes, inside) => {
      const node = document.createElementNS(root.namespaceURI, name);
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      node.append(...[].concat(inside || []));
      root.append(node);
      return node;
    };
    root.setAttribute("class", "picture");
    root.setAttribute("width", made[1]);
    root.setAttribute("height", made[2]);
    root.dataset.theme = dark() ? "dark" : "light";
    add("style", {}, document.querySelector("style").textContent);
    const shapes = document.querySelector("svg.defs");
    if (shapes) root.append(...shapes.cloneNode(true).childNodes);
    add("rect", { class: "paper", width: made[1], height: made[2] });
    const walk = (node) => {
      for (const child of node.childNodes) {
        const range = document.createRange();
        range.selectNode(child);
        const at = range.getBoundingClientRect();
        const x = at.left - frame.left + edge, y = at.top - frame.top + edge;
        if (!at.width || node.closest("button, select")) continue;
        if (child.nodeType === 3) {
          const look = getComputedStyle(node);
          const font = { "font-size": look.fontSize, "font-weight": look.fontWeight };
          add("text", { x, y: y + at.height * 0.78, fill: look.color, ...font }, child.textContent);
        } else if (child.tagName === "svg") {
          const copy = child.cloneNode(true);
          const own = child.getBoundingClientRect();
          copy.setAttribute("x", own.left - frame.left + edge);
          copy.setAttribute("y", own.top - frame.top + edge);
          copy.setAttribute("width", own.width);
          copy.setAttribute("height", own.height);
          copy.setAttribute("overflow", "visible");
          const holder = child.closest(".axis, .plot");
          add("g", { class: holder ? holder.className : "" }, copy);
        } else walk(child);
      }
    };
    walk(figure);
    // Charts share axes, which are in the first of them.
    for (const use of all("use", root)) {
      const name = use.getAttribute("href");
      const origin = root.querySelector(name) || document.querySelector(name);
      if (!root.contains(origin)) add("defs", {}, origin.cloneNode(true));
    }
    return { text: new XMLSerializer().serializeToString(root), width: made[1], height: made[2] };
  };
  const painted = async ({ text, width, height }) => {
    const image = new Image();
    image.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * width;
    canvas.height = 2 * height;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(image.src);
    return new Promise((ready) => canvas.toBlob(ready, "image/png"));
  };
  for (const caption of all("figure > figcaption")) {
    for (const form of ["SVG", "PNG"]) {
      copyButton(caption, form, "chart", async () => {
        const made = drawing(caption.parentElement);
        if (form === "SVG") return navigator.clipboard.writeText(made.text);
        const type = "image/png";
        return navigator.clipboard.write([new ClipboardItem({ [type]: painted(made) })]);
      });
    }
  }

  // If the page has data-download=:
  // Downloads lie in this page, packed.
  const unpacked = async (source) => {
    const bytes = Uint8Array.from(atob(source.textContent), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Blob([await new Response(stream).arrayBuffer()], { type: source.dataset.type });
  };
  for (const button of all("[data-download]")) {
    const source = document.getElementById(button.dataset.download);
    button.addEventListener("click", async () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await unpacked(source));
      link.download = source.dataset.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  // End of that.

  // A link to a part shows it: what it is folded in opens, what is not chosen is chosen.
  const show = (id) => {
    const part = id && document.getElementById(id);
    if (!part) return;
    for (let at = part; at; at = at.parentElement) {
      if (at.tagName === "DETAILS") at.open = true;
      if (at.dataset && at.classList.contains("unchosen")) {
        const select = selectors.find((one) =>
          [...one.options].some((option) => option.value === at.dataset.choice));
        if (select) { set(select, at.dataset.choice); chosen.set(select.id, select.value); }
      }
    }
    part.scrollIntoView();
  };
  const restore = () => {
    restoreTheme(); restoreSorts(); restoreChoices(); restorers.forEach((one) => one());
    restoreFilter();
  };
  addEventListener("hashchange", () => {
    const now = parsed();
    if (now.chosen) { chosen = now.chosen; restore(); }
    show(now.id);
    write(now.id);
  });
  restore();
  if (location.hash) show(parsed().id);

  let folded = [];
  addEventListener("beforeprint", () => {
    folded = all("details:not([open]):not(.fold)");
    folded.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
})();
