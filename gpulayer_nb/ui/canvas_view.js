// The live view of a run. The kernel sends what changed; this keeps the DOM, the curves and what the reader chose.
// Nothing here decides what a run is: words and tables come ready made, points come as float32.

const WIDTHS = [1, 5, 11, 25, 51, 101, 201];          // steps in the trailing mean; 1 is off
const BUCKETS = 600, FINE = 60000;                     // groups kept of a whole curve, groups kept for zooming in
const THIN = '\u202f';
const count = n => String(n).replace(/\B(?=(\d{3})+$)/g, THIN);
const FALLS = /loss|err|perplexity|ppl|mse|mae|rmse|nll/i;

function metric(v) {                                   // as number.py writes it
  if (v === undefined || v === null) return '–';
  if (Number.isNaN(v)) return 'NaN';
  const size = Math.abs(v);
  if (size === 0) return '0';
  if (size < 0.0005 || size >= 999999.5) { const [m, e] = v.toExponential(size < 1 ? 1 : 2).split('e'); return `${m}e${+e}`; }
  const [whole, part] = v.toFixed(3).split('.');
  return `${whole.replace(/\B(?=(\d{3})+$)/g, THIN)}.${part}`;
}

function stepBetween(lo, hi, most) {
  const raw = (hi - lo) / Math.max(1, most), size = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map(m => m * size).find(s => s >= raw * (1 - 1e-9));
}
function ticks(lo, hi, most) {
  const step = stepBetween(lo, hi, most), out = [];
  for (let i = Math.ceil(lo / step - 1e-6); i <= Math.floor(hi / step + 1e-6); i++) out.push(i * step);
  return out;
}
function ends(lo, hi) {                                // as ticks.py has it
  if (lo >= 0 && hi > 0.5 && hi <= 1) return [lo < 1 ? Math.floor(lo * 5 + 1e-9) / 5 : 0.8, 1];
  if (lo === hi) [lo, hi] = lo ? [Math.min(0, 2 * lo), Math.max(0, 2 * hi)] : [0, 1];
  if (lo > 0 && lo < 0.7 * hi) lo = 0; else if (hi < 0 && hi > 0.7 * lo) hi = 0;
  const step = stepBetween(lo, hi, 4);
  return [Math.floor(lo / step + 1e-9) * step, Math.ceil(hi / step - 1e-9) * step];
}
function labels(levels) {
  const sizes = levels.map(Math.abs).filter(v => v);
  if (!sizes.length) return levels.map(() => '0');
  const step = levels.length > 1 ? Math.min(...levels.slice(1).map((v, i) => v - levels[i])) : sizes[0];
  if (Math.max(...sizes) >= 1e5 || step < 1e-4) return levels.map(v => v === 0 ? '0' : String(+v.toPrecision(3)));
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return levels.map(v => Math.abs(v) < step / 1e6 ? '0' : v.toFixed(decimals));
}
const every = (spacing, least) => [1, 2, 5, 10, 20, 50, 100, 200, 500].find(k => k * spacing >= least) ?? Math.ceil(least / spacing);

// Groups of steps: last step, lowest, highest, sum and number of finite values, number of others. A group of one is a step.
class Groups {
  constructor(most, merges) { this.most = most; this.merges = merges; this.clear(); }
  clear() { this.n = 0; this.stride = 1; this.a = new Float64Array(6 * 1024); }
  size(i) { return this.a[6 * i + 4] + this.a[6 * i + 5]; }
  push(x, lo, hi, sum, good, bad) {
    const a = this.a, k = 6 * (this.n - 1);
    if (this.merges && this.n && a[k + 4] + a[k + 5] + good + bad <= this.stride) return this.join(k, x, lo, hi, sum, good, bad);
    if (this.n === this.most) this.merges ? this.halve() : this.drop();
    if (6 * this.n + 6 > this.a.length) { const b = new Float64Array(2 * this.a.length); b.set(this.a); this.a = b; }
    this.a.set([x, lo, hi, sum, good, bad], 6 * this.n++);
    if (good + bad > this.stride) this.stride = good + bad;
  }
  join(k, x, lo, hi, sum, good, bad) {
    const a = this.a;
    a[k] = x;
    if (good) { a[k + 1] = a[k + 4] ? Math.min(a[k + 1], lo) : lo; a[k + 2] = a[k + 4] ? Math.max(a[k + 2], hi) : hi; }
    a[k + 3] += sum; a[k + 4] += good; a[k + 5] += bad;
  }
  halve() {
    const old = this.a, n = this.n;
    this.stride *= 2; this.n = 0; this.a = new Float64Array(old.length);
    for (let i = 0; i < n; i++) this.push(...old.subarray(6 * i, 6 * i + 6));
  }
  drop() { const half = this.most >> 1; this.a.copyWithin(0, 6 * half, 6 * this.n); this.n -= half; }
  find(step) {                                         // first group that ends at or after the step
    let lo = 0, hi = this.n;
    while (lo < hi) { const m = (lo + hi) >> 1; if (this.a[6 * m] < step) lo = m + 1; else hi = m; }
    return lo;
  }
  mean(width, from, to) {                              // trailing mean at the groups [from, to)
    const a = this.a, out = new Float64Array(Math.max(0, to - from));
    let first = from, sum = 0, good = 0, all = 0;
    while (first > 0 && all + this.size(first - 1) < width) { first--; all += this.size(first); sum += a[6 * first + 3]; good += a[6 * first + 4]; }
    for (let i = from; i < to; i++) {
      sum += a[6 * i + 3]; good += a[6 * i + 4]; all += this.size(i);
      while (all > width && first < i) { sum -= a[6 * first + 3]; good -= a[6 * first + 4]; all -= this.size(first); first++; }
      out[i - from] = a[6 * i + 4] && good ? sum / good : NaN;
    }
    return out;
  }
}

class Curve {
  constructor(family) {
    this.family = family; this.all = new Groups(BUCKETS, true); this.fine = new Groups(FINE, false);
    this.val = []; this.train = []; this.clear();
  }
  clear() { this.all.clear(); this.fine.clear(); this.val = []; this.train = []; this.lo = Infinity; this.hi = -Infinity; this.above = Infinity; }
  see(lo, hi) {
    if (lo < this.lo) this.lo = lo;
    if (hi > this.hi) this.hi = hi;
    if (lo > 0 && lo < this.above) this.above = lo;
  }
  add(g, fine = true) {
    if (g[4]) this.see(g[1], g[2]);
    this.all.push(...g);
    if (fine) this.fine.push(...g);
  }
  values(b, into) { for (let i = 0; i < b.length; i += 2) { const v = b[i + 1], ok = Number.isFinite(v); into([b[i], v, v, ok ? v : 0, ok ? 1 : 0, ok ? 0 : 1]); } }
  groups(b, into) { for (let i = 0; i < b.length; i += 6) into(Array.from(b.subarray(i, i + 6))); }
}

const floats = v => new Float32Array(v.buffer.slice(v.byteOffset, v.byteOffset + v.byteLength));
function make(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) k === 'html' ? e.innerHTML = v : e.setAttribute(k, v);
  e.append(...children);
  return e;
}
const icon = path => `<svg class="gpl-i" viewBox="0 0 16 16" aria-hidden="true">${path}</svg>`;

class View {
  constructor(model, el) {
    this.id = Math.random().toString(36).slice(2); this.done = [];
    this.model = model; this.curves = new Map(); this.facts = { panels: [], left: 0, right: 1, ends: [], state: 'starting', last: 0 };
    this.parts = {}; this.output = new Map(); this.number = 0; this.ready = false; this.pressed = 0;
    this.smoothing = 25; this.log = false; this.zoom = null; this.at = null; this.rank = ''; this.search = '';
    this.build(el);
    this.stop = [];
    const onMessage = (message, buffers) => this.hear(message, buffers);
    model.on('msg:custom', onMessage);
    this.stop.push(() => model.off('msg:custom', onMessage));
    const redraw = () => this.later();
    const theme = new MutationObserver(redraw);
    for (const e of [document.body, document.documentElement]) theme.observe(e, { attributes: true, attributeFilter: ['class', 'data-jp-theme-light', 'data-jp-theme-name', 'style'] });
    const size = new ResizeObserver(redraw); size.observe(this.grid);
    this.inSight = true;
    const sight = new IntersectionObserver(([e]) => { this.inSight = e.isIntersecting; this.later(); });
    sight.observe(el);
    const looked = () => { this.say_hello(document.hidden ? 'sleep' : 'hello'); this.later(); };   // nothing comes while nobody looks
    const gone = () => this.say_hello('sleep');
    document.addEventListener('visibilitychange', looked);
    window.addEventListener('pagehide', gone);
    this.stop.push(() => theme.disconnect(), () => size.disconnect(), () => sight.disconnect(), gone,
      () => { document.removeEventListener('visibilitychange', looked); window.removeEventListener('pagehide', gone); });
    this.say_hello('hello', { first: true });
    if (document.hidden) this.say_hello('sleep');
  }

  build(el) {
    this.head = make('p', { class: 'gpl-shape' });
    this.strip = make('div', { class: 'gpl-strip' });
    this.button = make('button', { type: 'button', class: 'gpl-btn gpl-stop', title: 'stop after the next step; weights and history are kept', html: icon('<rect class="f" x="4" y="4" width="8" height="8"/>') + '<span>Stop</span>' });
    this.button.addEventListener('click', () => this.press());
    this.button.hidden = this.model.get('stops') === false;
    this.bar = make('div'); this.note = make('div');
    this.where = make('span', { class: 'at' });
    const log = make('button', { type: 'button', class: 'gpl-btn', 'aria-pressed': 'false', title: 'logarithmic axes where values allow it' }, 'log');
    log.addEventListener('click', () => { this.log = !this.log; log.setAttribute('aria-pressed', this.log); this.later(); });
    const slider = make('input', { type: 'range', min: 0, max: 6, step: 1, value: 3, 'aria-label': 'smoothing' });
    const said = make('output', {}, '25 steps');
    const smooth = () => { this.smoothing = WIDTHS[slider.value]; said.value = this.smoothing > 1 ? `${this.smoothing} steps` : 'off'; slider.setAttribute('aria-valuetext', said.value); this.later(); };
    slider.setAttribute('aria-valuetext', '25 steps');
    slider.addEventListener('input', smooth);
    this.reset = make('button', { type: 'button', class: 'gpl-btn icon', 'aria-label': 'show all steps', title: 'show all steps (or double-click a curve)', html: icon('<path d="M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10"/>') });
    this.reset.disabled = true;
    this.reset.addEventListener('click', () => this.zoomTo(null));
    this.grid = make('div', { class: 'gpl-curves' });
    const empty = make('figure', { class: 'gpl-empty' }, make('p', {}, 'The curves begin with the first step.'));
    this.grid.append(empty);
    const curves = make('section', { 'aria-label': 'curves' },
      make('div', { class: 'gpl-tools' }, this.where, log, make('label', {}, 'mean of ', slider, said), this.reset), this.grid);
    this.ranksCount = make('span', { class: 'muted' }); this.ranks = make('div', { class: 'gpl-table' });
    this.choose = make('select', { 'aria-label': 'show output of' }, make('option', { value: '' }, 'all ranks'));
    this.choose.addEventListener('change', () => { this.rank = this.choose.value; this.filter(); });
    const find = make('input', { type: 'search', placeholder: 'search', 'aria-label': 'search in the output' });
    find.addEventListener('input', () => { this.search = find.value.toLowerCase(); this.filter(); });
    this.found = make('span', { class: 'muted', role: 'status' });
    this.logs = make('div');
    const section = (title, extra, ...body) => make('details', { class: 'gpl-sec', open: '' }, make('summary', {}, make('b', {}, title), extra), ...body);
    this.root = make('section', { class: 'gpl gpl-run', 'aria-label': 'run', 'data-state': 'starting' },
      this.head, make('div', { class: 'gpl-top' }, this.strip, this.button), this.bar, this.note, curves,
      section('Ranks', this.ranksCount, this.ranks),
      section('Output', '', make('div', { class: 'gpl-find' }, this.choose, find, this.found), this.logs));
    el.append(this.root);
  }

  say_hello(kind, more = {}) {
    try { this.model.send({ kind, page: this.id, ...more }); } catch { /* the kernel or the comm is gone: nobody to tell */ }
  }

  hear(message, buffers) {
    if (message.kind !== 'whole' && (!this.ready || message.number !== this.number + 1)) {
      this.ready = false;
      if (!document.hidden) this.say_hello('hello');   // something was lost: the whole is asked for
      return;
    }
    if (message.kind === 'whole') {
      this.done = []; for (const c of this.curves.values()) c.clear(); this.wiped = true; }
    this.ready = true; this.number = message.number;
    for (const part of ['head', 'name', 'strip', 'bar', 'note', 'ranks', 'ranks_count']) if (part in message) this.parts[part] = message[part];
    if (message.chart) this.facts = message.chart;
    this.done.push(...message.ends ?? []);
    this.facts.ends = [...this.done, ...this.facts.next ?? []];
    for (const entry of message.curves ?? []) this.take(entry, buffers);
    if (message.output || this.wiped) (this.pending ??= []).push([this.wiped, message.output ?? []]);
    this.wiped = false;
    this.later();
  }

  take(entry, buffers) {
    if (!this.curves.has(entry.family)) this.curves.set(entry.family, new Curve(entry.family));
    const c = this.curves.get(entry.family), b = i => floats(buffers[i]);
    if (entry.kind === 'values') c.values(b(entry.buffer), g => c.add(g));
    else if (entry.kind === 'groups') c.groups(b(entry.buffer), g => c.add(g));
    else if (entry.kind === 'whole') {
      const coarse = b(entry.buffer), tail = b(entry.tail);
      if (coarse.length) { c.groups(coarse, g => c.add(g, false)); c.values(tail, g => c.fine.push(...g)); }
      else c.values(tail, g => c.add(g));
    } else {
      const v = entry.value ?? NaN;
      if (Number.isFinite(v)) c.see(v, v);
      c[entry.kind].push([entry.step, v, entry.epoch]);
    }
  }

  later() {
    if (this.queued || document.hidden || !this.inSight) return;
    this.queued = true;
    requestAnimationFrame(() => { this.queued = false; this.paint(); });
  }

  paint() {
    const set = (e, part, html = true) => {
      const v = this.parts[part];
      if (v === undefined || e.shown === v) return;
      e.shown = v;
      html ? e.innerHTML = v : e.textContent = v;
    };
    set(this.head, 'head'); set(this.strip, 'strip'); set(this.bar, 'bar'); set(this.ranks, 'ranks'); set(this.ranksCount, 'ranks_count');
    if (['finished', 'stopped', 'failed'].includes(this.facts.state)) this.said = null;
    if (!this.said) set(this.note, 'note');
    this.root.dataset.state = this.facts.state;
    if (this.parts.name) this.root.setAttribute('aria-label', this.parts.name);
    const over = ['finished', 'stopped', 'failed'].includes(this.facts.state);
    this.button.disabled = over || this.facts.state === 'starting' && !this.parts.head;
    if (this.facts.state === 'stopping' && !this.pressed) this.pressed = 1;
    const word = this.pressed && !over ? 'Stop now' : 'Stop';
    if (this.button.lastChild.textContent !== word) this.button.lastChild.textContent = word;
    for (const [wiped, news] of this.pending ?? []) this.write(wiped, news);
    this.pending = null;
    this.lay();
    for (const p of this.facts.panels) this.draw(p);
    this.tell();
  }

  // Stop: the page asks the Jupyter server to interrupt the kernel, as the notebook's own stop button does.

  async press() {
    const config = document.getElementById('jupyter-config-data'), id = this.model.get('kernel_id');
    if (!config || !id) return this.say('This page cannot stop the run. Next: the notebook\'s own stop button');
    const { baseUrl, token } = JSON.parse(config.textContent);
    this.pressed++;
    this.say(this.pressed > 1 ? 'Stopping now: the ranks are cut off in the step they are in…' : 'Stopping after this step…', 4000);
    this.later();
    const xsrf = (document.cookie.match(/(?:^|; )_xsrf=([^;]+)/) || [])[1];
    try {
      const reply = await fetch(`${baseUrl}api/kernels/${id}/interrupt`, {
        method: 'POST', credentials: 'same-origin',
        headers: { ...(xsrf ? { 'X-XSRFToken': xsrf } : {}), ...(token ? { Authorization: `token ${token}` } : {}) },
      });
      if (!reply.ok) throw new Error(`the server answered ${reply.status}`);
    } catch (error) {
      this.pressed--;
      this.say(`The stop did not reach the kernel: ${error.message}. Next: the notebook's own stop button`);
    }
  }

  say(words, milliseconds = 0) {                        // takes the place of the message line
    clearTimeout(this.saying);
    this.said = words;
    this.note.shown = null;
    this.note.replaceChildren(make('p', { class: 'gpl-note', role: 'status' }, make('span', {}, words)));
    if (milliseconds) this.saying = setTimeout(() => { this.said = null; this.later(); }, milliseconds);
  }

  // Curves

  lay() {
    const names = this.facts.panels.map(p => p.family).join('\n');
    if (!names || this.laid === names) return;
    this.laid = names;
    const old = new Map([...this.grid.querySelectorAll('figure[data-family]')].map(f => [f.dataset.family, f]));
    const key = (kind, sample) => `<span class="gpl-key"><svg viewBox="0 0 24 10" aria-hidden="true">${sample}</svg>${kind} <output></output> <small></small></span>`;
    this.grid.replaceChildren(...this.facts.panels.map(p => old.get(p.family) ?? this.figure(p, key)));
    this.grid.classList.toggle('one', this.facts.panels.length === 1);
  }

  figure(panel, key) {
    const caption = make('figcaption', { html: key('train', '<path d="M1 5h22"/>') + key('val', '<path d="M1 5h22" stroke-dasharray="5 3"/><circle cx="12" cy="5" r="3"/>') });
    caption.prepend(make('b', { title: panel.family }, panel.family));
    const canvas = make('canvas', { tabindex: 0, role: 'img', 'aria-label': panel.family });
    const figure = make('figure', { 'data-family': panel.family }, caption, canvas);
    const step = e => this.invert(figure, e.clientX - canvas.getBoundingClientRect().left);
    let from = null;
    canvas.addEventListener('pointerdown', e => { from = step(e); canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener('pointermove', e => { this.at = step(e); this.drag = from === null ? null : [from, this.at]; this.later(); });
    canvas.addEventListener('pointerup', e => {
      const to = step(e), [a, b] = this.range();
      if (from !== null && Math.abs(to - from) > Math.max(2, (b - a) / 50)) this.zoomTo([Math.min(from, to), Math.max(from, to)]);
      from = this.drag = null; this.later();
    });
    canvas.addEventListener('pointercancel', () => { from = this.drag = null; this.later(); });
    canvas.addEventListener('pointerleave', () => { this.at = null; this.later(); });
    canvas.addEventListener('blur', () => { this.at = null; this.later(); });
    canvas.addEventListener('dblclick', () => this.zoomTo(null));
    canvas.addEventListener('keydown', e => {
      const ends = this.facts.ends, epoch = ends.length ? ends[0][0] - this.facts.left : 100;
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -epoch, PageDown: epoch }[e.key];
      if (e.key === 'Escape') { if (this.at !== null) this.at = null; else this.zoomTo(null); }
      else if (by) this.at = Math.max(this.facts.left + 1, Math.min(this.facts.last, (this.at ?? this.facts.last) + by * (e.shiftKey && Math.abs(by) === 1 ? 10 : 1)));
      else return;
      e.preventDefault(); e.stopPropagation(); this.later();
    });
    return figure;
  }

  zoomTo(range) { this.zoom = range; this.reset.disabled = !range; this.later(); }
  range() { return this.zoom ?? [this.facts.left, Math.max(this.facts.right, this.facts.left + 1)]; }
  invert(figure, px) {
    const { x0, w } = figure.box ?? { x0: 0, w: 1 }, [from, to] = this.range();
    return Math.max(this.facts.left + 1, Math.min(this.facts.last, Math.round(from + (px - x0) / w * (to - from))));
  }

  draw(panel) {
    const c = this.curves.get(panel.family) ?? new Curve(panel.family), { facts } = this;
    const figure = [...this.grid.children].find(f => f.dataset.family === panel.family), canvas = figure.querySelector('canvas');
    const css = getComputedStyle(canvas), dpr = window.devicePixelRatio || 1, W = canvas.clientWidth, H = canvas.clientHeight;
    if (!W) return;
    const unit = parseFloat(css.fontSize) / 13, color = name => css.getPropertyValue(name).trim();
    const dark = document.body.dataset.jpThemeLight === 'false' || document.body.classList.contains('vscode-dark');
    if (canvas.width !== Math.round(W * dpr) || canvas.height !== Math.round(H * dpr)) { canvas.width = Math.round(W * dpr); canvas.height = Math.round(H * dpr); }
    const g = canvas.getContext('2d');
    g.setTransform(dpr, 0, 0, dpr, 0, 0); g.clearRect(0, 0, W, H);
    const hue = color(`--gpl-c${panel.hue % 6 + 1}`), text = color('--gpl-text'), muted = color('--gpl-muted'), line = color('--gpl-line'), bg = color('--gpl-bg');
    figure.style.setProperty('--hue', hue);
    const x0 = 46 * unit, y0 = 22 * unit, w = W - x0 - 10 * unit, h = H - y0 - 19 * unit, [from, to] = this.range();
    figure.box = { x0, w };
    const X = s => x0 + (s - from) / (to - from) * w;
    const fine = c.fine, first = fine.n ? fine.a[0] : Infinity, all = c.all;
    const whole = all.n && fine.n && all.stride === 1;
    const source = whole || (this.zoom && from >= first && fine.find(to) - fine.find(from) < 20000) ? fine : all;
    const i0 = Math.max(0, source.find(from) - 1), i1 = Math.min(source.n, source.find(to) + 1);

    let { lo, hi } = c;
    if (this.zoom) {
      [lo, hi] = [Infinity, -Infinity];
      for (let i = i0; i < i1; i++) if (source.a[6 * i + 4]) { lo = Math.min(lo, source.a[6 * i + 1]); hi = Math.max(hi, source.a[6 * i + 2]); }
      for (const [s, v] of c.val) if (s >= from && s <= to && Number.isFinite(v)) { lo = Math.min(lo, v); hi = Math.max(hi, v); }
    }
    const some = lo <= hi, share = lo >= 0 && hi > 0.5 && hi <= 1 && !FALLS.test(panel.family);
    const log = this.log && some && hi > 0 && lo >= 0 && !share;
    let bottom, top;
    if (log) { bottom = Math.max(lo > 0 ? lo : c.above, hi / 1e9); top = hi; if (bottom >= top) [bottom, top] = [bottom / 2, top * 2]; }
    else [bottom, top] = some ? ends(lo, hi) : [0, 1];
    const Y = v => y0 + h - Math.max(-.02, Math.min(1.02, log ? Math.log(Math.max(v, bottom / 10) / bottom) / Math.log(top / bottom) : (v - bottom) / (top - bottom))) * h;

    g.font = `${11 * unit}px ${css.fontFamily}`; g.lineWidth = 1; g.textBaseline = 'middle';
    const rule = (xa, ya, xb, yb) => { g.beginPath(); g.moveTo(xa, ya); g.lineTo(xb, yb); g.stroke(); };
    const write = (t, x, y, align) => { g.textAlign = align; g.fillText(t, x, y); };
    g.strokeStyle = line; g.fillStyle = muted;
    const levels = log ? decades(bottom, top) : ticks(bottom, top, 5), texts = log ? levels.map(v => String(+v.toPrecision(1))) : labels(levels);
    levels.forEach((v, i) => { const y = Math.round(Y(v)) + .5; rule(x0, y, x0 + w, y); write(texts[i], x0 - 6 * unit, y, 'right'); });
    g.textBaseline = 'alphabetic';
    write('step', x0 - 6 * unit, y0 + h + 15 * unit, 'right');
    for (const s of ticks(from, to, w / unit / 90)) if (Number.isInteger(s)) write(count(s), X(s), y0 + h + 15 * unit, X(s) > x0 + w - 14 * unit ? 'right' : X(s) - x0 < 8 ? 'left' : 'center');

    const marks = facts.ends.filter(([s]) => s > from && s <= to);
    if (marks.length) {                                 // a dotted line at each epoch's end; fewer numbers, then fewer lines, when they get close
      const apart = marks.length > 1 ? (X(marks.at(-1)[0]) - X(marks[0][0])) / (marks.length - 1) / unit : 99;
      const numbers = every(apart, 22), lines = apart >= 6 ? 1 : numbers;
      write('epoch', x0 - 6 * unit, y0 - 10 * unit, 'right');
      g.setLineDash([1, 3]); g.strokeStyle = muted;
      for (const [s, e] of marks) {
        const x = Math.round(X(s)) + .5;
        if (e % numbers === 0) write(count(e), x, y0 - 10 * unit, 'center');
        if (e % lines === 0) { g.globalAlpha = .75; rule(x, y0 - 4 * unit, x, y0 + h); g.globalAlpha = 1; }
      }
      g.setLineDash([]);
    }

    g.save(); g.beginPath(); g.rect(x0 - 1, y0 - 3, w + 6 * unit, h + 5); g.clip();
    const stroke = (width, alpha, band, value) => {     // one vertical stroke per pixel column; a group without a finite value breaks the line
      g.strokeStyle = hue; g.globalAlpha = alpha; g.lineWidth = width * unit; g.lineJoin = 'round'; g.beginPath();
      let open = false, column = null, a = 0, b = 0, last = 0;
      const flush = () => {
        if (column === null) return;
        open ? g.lineTo(column, Y(a)) : g.moveTo(column, Y(a));
        if (b !== a) g.lineTo(column, Y(b));
        if (last !== b) g.lineTo(column, Y(last));
        open = true; column = null;
      };
      for (let i = i0; i < i1; i++) {
        if (!source.a[6 * i + 4]) { flush(); open = false; continue; }
        const x = Math.round(X(source.a[6 * i]) * 2) / 2, l = band ? source.a[6 * i + 1] : value[i - i0], u = band ? source.a[6 * i + 2] : l;
        if (x !== column) { flush(); column = x; a = l; b = u; } else { a = Math.min(a, l); b = Math.max(b, u); }
        last = band ? u : l;
      }
      flush(); g.stroke(); g.globalAlpha = 1;
    };
    const mean = source.mean(this.smoothing, i0, i1);
    if (source.n) {
      if (this.smoothing > 1) { stroke(1, dark ? .4 : .28, true); stroke(1.75, 1, false, mean); } else stroke(1.5, 1, true);
    }
    const mark = (x, y, r, hollow) => { g.beginPath(); g.arc(x, y, r * unit, 0, 7); g.fillStyle = hollow ? bg : hue; g.fill(); g.lineWidth = 1.75 * unit; g.strokeStyle = hue; g.stroke(); };
    const means = (points, dashed) => {
      g.strokeStyle = hue; g.lineWidth = 1.75 * unit; g.setLineDash(dashed ? [5 * unit, 3 * unit] : []); g.beginPath();
      let open = false;
      for (const [s, v] of points) { if (!Number.isFinite(v)) { open = false; continue; } open ? g.lineTo(X(s), Y(v)) : g.moveTo(X(s), Y(v)); open = true; }
      g.stroke(); g.setLineDash([]);
      const shown = every(w / unit / Math.max(1, points.length), 9);
      points.forEach(([s, v], i) => { if (i % shown === 0 && Number.isFinite(v)) mark(X(s), Y(v), 3, dashed); });
    };
    if (!source.n) means(c.train, false);
    means(c.val, true);
    g.restore();

    for (const [a, b, words] of panel.gaps) {           // not finite: an open interval with its own name, no line through it
      if (b < from || a > to) continue;
      const xa = Math.round(X(a)) + .5, xb = Math.max(Math.round(X(b)) + .5, xa + 5 * unit);
      g.strokeStyle = color('--gpl-warn'); g.lineWidth = 1.5; rule(xa, y0 + 14 * unit, xa, y0 + h); rule(xb, y0 + 14 * unit, xb, y0 + h);
      const wide = g.measureText(words).width / 2 + 3, x = Math.max(x0 + wide, Math.min(x0 + w - wide, (xa + xb) / 2));
      g.fillStyle = bg; g.fillRect(x - wide, y0 + 1, 2 * wide, 13 * unit); g.fillStyle = text; write(words, x, y0 + 11 * unit, 'center');
    }
    const end = source.n ? mean[mean.length - 1] : undefined, live = ['starting', 'running', 'stopping'].includes(facts.state);
    if (live && Number.isFinite(end) && facts.last <= to) mark(X(source.a[6 * (source.n - 1)]), Y(end), 2.25, false);
    if (!live && facts.state !== 'finished' && facts.last > from && facts.last <= to) {
      const x = X(facts.last), y = Y(end ?? bottom), r = 4 * unit, left = x > x0 + w / 2;
      g.strokeStyle = text; g.lineWidth = 1; rule(Math.round(x) + .5, y0, Math.round(x) + .5, y0 + h);
      if (facts.state === 'failed') { g.strokeStyle = color('--gpl-bad'); g.lineWidth = 2 * unit; rule(x - r, y - r, x + r, y + r); rule(x + r, y - r, x - r, y + r); }
      else { g.fillStyle = hue; g.fillRect(x - r, y - r, 2 * r, 2 * r); }
      g.fillStyle = text; write(facts.state, x + (left ? -7 : 7) * unit, y < y0 + h / 2 ? y0 + h - 7 * unit : y0 + 11 * unit, left ? 'right' : 'left');
    }
    if (this.drag) { const [a, b] = this.drag.map(X); g.globalAlpha = .15; g.fillStyle = text; g.fillRect(Math.min(a, b), y0, Math.abs(b - a), h); g.globalAlpha = 1; }
    const at = this.at, i = at === null ? source.n - 1 : Math.min(source.n - 1, source.find(at));
    const smoothed = i < 0 ? undefined : source.mean(this.smoothing, i, i + 1)[0];
    if (at !== null) {
      const x = Math.round(X(at)) + .5;
      g.strokeStyle = text; g.lineWidth = 1; rule(x, y0, x, y0 + h);
      if (Number.isFinite(smoothed)) mark(X(at), Y(smoothed), 2.5, false);
    }
    this.legend(figure, panel, c, source, i, smoothed);
  }

  legend(figure, panel, c, source, i, smoothed) {
    const at = this.at, [train, val] = figure.querySelectorAll('.gpl-key'), upTo = points => at === null ? points.at(-1) : points.filter(p => p[0] <= at).at(-1);
    const v = upTo(c.val), t = upTo(c.train), exact = at === null && this.facts.state === 'finished' || !source.n;
    const show = (key, value, what, there) => {
      key.style.display = there ? '' : 'none';
      key.querySelector('output').value = metric(value);
      key.querySelector('small').textContent = what;
    };
    let value = smoothed, what = panel.note;
    if (exact && t) { value = t[1]; what = `epoch ${t[2]}`; }
    else if (at !== null && i >= 0) {
      const a = source.a, n = source.size(i), own = a[6 * i + 4] ? a[6 * i + 3] / a[6 * i + 4] : NaN;
      if (this.smoothing > 1 || n > 1 || Number.isNaN(own)) what = n === 1 ? `this step ${metric(own)}` : `${count(n)} steps here ${metric(own)}`;
    }
    show(train, value, what, source.n || c.train.length);
    show(val, v?.[1], v ? `epoch ${v[2]}` : '', c.val.length);
    const last = `${panel.family}: ${c.val.length || source.n ? `train ${metric(value)}${v ? `, val ${metric(v[1])} after epoch ${v[2]}` : ''}` : 'no step yet'}`;
    const gaps = panel.gaps.map(([a, b, words]) => `; ${words} from step ${a} to ${b}`).join('');
    const label = `${last}${gaps}. Arrow keys read single steps.`;
    const canvas = figure.querySelector('canvas'), now = Date.now();
    if (canvas.labelled !== label && (now - (canvas.spoken ?? 0) > 5000 || at !== null)) { canvas.labelled = label; canvas.spoken = now; canvas.setAttribute('aria-label', label); }
  }

  tell() {
    const { facts } = this, s = this.at ?? facts.last;
    if (!s) { this.where.textContent = facts.world ? `mean over ${facts.world} rank${facts.world === 1 ? '' : 's'}, every step` : ''; return; }
    const ended = facts.ends.filter(([end]) => end < s).length, first = facts.ends.length ? facts.ends[0][1] : 1;
    const over = ['finished', 'stopped', 'failed'].includes(facts.state);
    const words = `${this.at !== null ? 'at ' : over ? 'last: ' : 'latest: '}step ${count(s)} · epoch ${first + ended}${facts.epochs ? `/${facts.epochs}` : ''}`;
    this.where.textContent = words + (this.zoom ? ` · steps ${count(Math.round(this.zoom[0]))} to ${count(Math.round(this.zoom[1]))}` : '');
  }

  // Output

  write(wiped, news) {
    if (wiped) for (const r of this.output.values()) { r.pre.replaceChildren(); r.lines.clear(); }
    for (const { rank, first, lines, count: words } of news) {
      const r = this.output.get(rank) ?? this.page(rank), pre = r.pre, low = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 8;
      for (const [number, line] of r.lines) if (number < first) { line.remove(); r.lines.delete(number); }
      for (const [number, html] of lines) {
        let line = r.lines.get(number);
        if (!line) {                                      // late ones go to their place
          line = make('div'); line.number = number; r.lines.set(number, line);
          let after = pre.lastChild;
          while (after && after.number > number) after = after.previousSibling;
          after ? after.after(line) : pre.prepend(line);
        }
        line.innerHTML = html; line.hidden = !html;
      }
      r.count.textContent = words;
      if (low) pre.scrollTop = pre.scrollHeight;
    }
    if (news.length) this.filter();
  }

  page(rank) {
    const pre = make('pre', { tabindex: 0, role: 'log', 'aria-label': `output of rank ${rank}`, 'aria-live': 'off' }), words = make('span', { class: 'muted' });
    const fold = make('details', { class: 'gpl-log', ...(rank === 0 ? { open: '' } : {}) }, make('summary', {}, make('b', {}, `rank ${rank}`), words), pre);
    const r = { pre, count: words, fold, lines: new Map() };
    this.output.set(rank, r);
    this.logs.append(fold);
    this.choose.append(make('option', { value: rank }, `rank ${rank}`));
    return r;
  }

  filter() {
    let found = 0;
    for (const [rank, r] of this.output) {
      r.fold.hidden = this.rank !== '' && +this.rank !== rank;
      if (!r.fold.hidden && (this.rank !== '' || this.search) && !r.fold.open) { r.fold.open = true; r.opened = true; }
      if (r.opened && this.rank === '' && !this.search) { r.fold.open = false; r.opened = false; }
      for (const line of r.lines.values()) {
        const hit = line.innerHTML !== '' && (!this.search || line.textContent.toLowerCase().includes(this.search));
        line.hidden = !hit;
        if (hit && !r.fold.hidden) found++;
      }
    }
    this.found.textContent = this.search ? `${count(found)} line${found === 1 ? '' : 's'}` : '';
  }
}

function decades(lo, hi) {
  const out = [], from = Math.floor(Math.log10(lo)), to = Math.ceil(Math.log10(hi)), few = to - from <= 2;
  for (let e = from; e <= to; e += Math.max(1, Math.ceil((to - from) / 6))) for (const m of few ? [1, 2, 5] : [1]) { const v = m * 10 ** e; if (v >= lo * .999 && v <= hi * 1.001) out.push(v); }
  return out;
}

function render({ model, el }) {
  const view = new View(model, el);
  return () => view.stop.forEach(end => end());
}
export default { render };
