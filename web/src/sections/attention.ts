// The attention of a head, drawn: a running text shaded by where one token
// looks, and all tokens at once as arcs or as a map.
import {choice, figure, h, room, roving, s} from '../dom';
import {share, shown} from '../format';
import type {Example, Head, Report, Sample} from '../report';
import {decodeWeights, whyAbsent} from '../report';

// A token as a label, without the space that it may begin with.
function label(text: string): string {
  return shown(/\S/.test(text) ? text.trim() : text);
}

function heat(weight: number): string {
  return `--share:${Math.min(1, Math.max(0, weight)).toFixed(3)}`;
}

// A token of running text without the space before it.
function token(text: string, attributes: Record<string, string | boolean |
    undefined>, tag: 'button' | 'span' = 'span'): HTMLElement {
  return h(tag, {class: 'word-token', dir: 'auto', ...attributes},
    shown(/\S/.test(text) ? text.replace(/^ /, '') : text));
}

// Tokens in a row; the space that a token begins with stands between them, so
// that it is not shaded.
function joined(texts: string[], marks: HTMLElement[]): Node[] {
  return marks.flatMap((mark, i) => /^ \S/.test(texts[i] ?? '') && i > 0
    ? [document.createTextNode(' '), mark] : [mark]);
}

interface Drawn {
  rows: string[];
  columns: string[];
  weights: Float32Array;
}

// Tokens as buttons: the chosen one looks, the others show how much it sees.
function runningText(drawn: Drawn, start: number,
                     onChoose: (row: number) => void): HTMLElement {
  const same = drawn.rows === drawn.columns;
  const n = drawn.columns.length;
  const legend = h('p', {class: 'soft small', role: 'status'});
  const queries = drawn.rows.map((text) => token(text,
    {type: 'button', 'data-query': false}, 'button'));
  const keys = same ? queries : drawn.columns.map((text) => token(text, {}));
  const choose = (row: number): void => {
    const seen = Array.from(drawn.weights.slice(row * n, row * n + n));
    keys.forEach((mark, i) => {
      mark.setAttribute('style', heat(seen[i] ?? 0));
      mark.title = `${share(seen[i] ?? 0)}`;
    });
    queries.forEach((mark, i) =>
      mark.setAttribute('aria-pressed', String(i === row)));
    const top = seen.map((weight, i) => ({weight, i}))
      .sort((a, b) => b.weight - a.weight).slice(0, 3)
      .filter((one) => one.weight >= 0.005);
    legend.replaceChildren(h('bdi', {class: 'token'},
      label(drawn.rows[row] ?? '')), ' looks at ', ...top.flatMap((one, i) => [
      i > 0 ? ', ' : '',
      h('bdi', {class: 'token'}, label(drawn.columns[one.i] ?? '')),
      ` ${share(one.weight)}`]));
    onChoose(row);
  };
  queries.forEach((mark, i) => {
    mark.addEventListener('click', () => choose(i));
    mark.addEventListener('focus', () => choose(i));
    mark.addEventListener('mouseenter', () => choose(i));
  });
  roving(queries, start);
  choose(start);
  return h('div', {},
    !same && h('p', {class: 'figure-title'}, 'Source'),
    !same && h('p', {class: 'running', dir: 'auto'},
      ...joined(drawn.columns, keys)),
    !same && h('p', {class: 'figure-title'}, 'Target'),
    h('div', {class: 'running', role: 'group', dir: 'auto',
              'aria-label': 'Text; choose the token that looks'},
      ...joined(drawn.rows, queries)),
    legend);
}

// Every token under its place on a line, arcs from looker to looked-at.
function arcs(drawn: Drawn): {drawing: Node; choose: (row: number) => void} {
  const n = drawn.columns.length;
  const rows = drawn.rows.length;
  const width = room(520);
  const foot = 62;
  const x = (i: number): number => 12 + (width - 24) * (i + 0.5) / n;
  const riseOf = (from: number, to: number): number =>
    Math.min(124, 14 + 0.58 * Math.abs(to - from));
  const seen = (row: number, column: number): number =>
    drawn.weights[row * n + column] ?? 0;
  const start = (row: number): number => x(rows === n ? row : row * n / rows);
  // As high as the widest arc.
  let high = 24;
  for (let i = 0; i < rows * n; ++i) {
    if (seen(Math.floor(i / n), i % n) >= 0.06) {
      high = Math.max(high, 6 + riseOf(start(Math.floor(i / n)), x(i % n)));
    }
  }
  const paths: {row: number; path: SVGPathElement}[] = [];
  for (let row = 0; row < rows; ++row) {
    for (let column = 0; column < n; ++column) {
      const weight = seen(row, column);
      if (weight < 0.06) continue;
      const from = start(row);
      const to = x(column);
      const rise = riseOf(from, to);
      const shape = row === column
        ? `M${from - 3},${high} q3,-14 6,0`
        : `M${from},${high} C${from},${high - rise * 1.3} ${to},${
          high - rise * 1.3} ${to},${high}`;
      paths.push({row, path: s('path', {
        d: shape, class: 'arc', 'stroke-width': (0.4 + 3 * weight).toFixed(2),
        // Arcs to the first token are many and say little.
        'stroke-opacity': ((column === 0 ? 0.05 : 0.12) +
          (column === 0 ? 0.2 : 0.55) * weight).toFixed(2)})});
    }
  }
  const labels = drawn.columns.map((text, i) => s('text', {
    class: 'tick', 'text-anchor': 'end',
    transform: `translate(${x(i) + 3},${high + 8}) rotate(-90)`},
  label(text).slice(0, 10)));
  return {
    drawing: figure('Arcs from each token to the tokens it looks at; the ' +
      'chosen one is emphasised. The text above says the same.', width,
    high + foot, ...paths.map((one) => one.path), ...labels),
    choose: (row) => {
      for (const one of paths) {
        one.path.classList.toggle('chosen', one.row === row);
      }
      labels.forEach((one, i) => one.classList.toggle('chosen', i === row));
    },
  };
}

// Rows look at columns.
function heatMap(drawn: Drawn): {drawing: Node; choose: (row: number) => void} {
  const n = drawn.columns.length;
  const rows = drawn.rows.length;
  const left = 74;
  const top = 66;
  const width = room(520);
  const side = Math.min(18, (width - left) / n);
  const cells: SVGElement[] = [];
  for (let i = 0; i < rows * n; ++i) {
    const weight = drawn.weights[i] ?? 0;
    if (weight < 0.01) continue;
    cells.push(s('rect', {
      x: left + (i % n) * side, y: top + Math.floor(i / n) * side,
      width: side - 0.6, height: side - 0.6, rx: 1, class: 'heat',
      'fill-opacity': Math.max(0.05, weight).toFixed(2)},
    s('title', {}, `${label(drawn.rows[Math.floor(i / n)] ?? '')} → ${
      label(drawn.columns[i % n] ?? '')} ${share(weight)}`)));
  }
  const frame = s('rect', {x: left, y: top, width: n * side,
                           height: rows * side, class: 'frame'});
  const marker = s('rect', {x: left - 1, width: n * side + 1, height: side,
                            class: 'row-marker'});
  const rowLabels = drawn.rows.map((text, i) => s('text', {
    class: 'tick', x: left - 5, y: top + (i + 0.72) * side,
    'text-anchor': 'end'}, label(text).slice(0, 10)));
  const columnLabels = drawn.columns.map((text, i) => s('text', {
    class: 'tick',
    transform: `translate(${left + (i + 0.68) * side},${top - 5}) rotate(-90)`,
  }, label(text).slice(0, 9)));
  return {
    drawing: figure('Attention map: each row is a token that looks, each ' +
      'column a token that is looked at.', width, top + rows * side + 6, frame,
    ...cells, marker, ...rowLabels, ...columnLabels),
    choose: (row) => marker.setAttribute('y', String(top + row * side)),
  };
}

// The row to begin with: the one that is surest of a key that is neither the
// first token nor itself.
function tellingRow(drawn: Drawn): number {
  const n = drawn.columns.length;
  let best = Math.min(drawn.rows.length - 1, 8);
  let most = 0;
  for (let row = 3; row < drawn.rows.length; ++row) {
    for (let key = 1; key < n; ++key) {
      const weight = drawn.weights[row * n + key] ?? 0;
      if (key !== row && weight > most + 0.02) {
        most = weight;
        best = row;
      }
    }
  }
  return best;
}

// What the reader chose stays when the head changes.
const chosen = {sample: 0, view: 'arcs'};

function drawSample(head: Head, sample: Sample, index: number): HTMLElement {
  const drawn: Drawn = {
    rows: sample.tokens,
    columns: sample.keys ?? sample.tokens,
    weights: decodeWeights(head.attention?.[index] ?? ''),
  };
  const box = h('div', {class: 'overview'});
  let row = tellingRow(drawn);
  let view = arcs(drawn);
  const show = (): void => {
    view = chosen.view === 'arcs' ? arcs(drawn) : heatMap(drawn);
    box.replaceChildren(view.drawing);
    view.choose(row);
  };
  show();
  return h('div', {},
    runningText(drawn, row, (to) => {
      row = to;
      view.choose(to);
    }),
    choice('view', 'All tokens at once', [
      {value: 'arcs', label: 'Arcs'}, {value: 'map', label: 'Map'},
    ], chosen.view, (value) => {
      chosen.view = value;
      show();
    }), box);
}

export function attentionPart(head: Head, report: Report): HTMLElement {
  const samples = (report.samples ?? [])
    .map((sample, index) => ({sample, index}))
    .filter(({sample, index}) => (sample.kind ?? head.kind) === head.kind &&
      (head.attention?.[index] ?? '') !== '');
  const section = h('section', {class: 'question'}, h('h4', {}, 'See it look'));
  if (samples.length === 0) {
    section.append(h('p', {class: 'absent'}, whyAbsent(report, 'samples')));
    return section;
  }
  const box = h('div');
  const show = (index: number): void => {
    const found = samples.find((one) => one.index === index) ?? samples[0]!;
    box.replaceChildren(drawSample(head, found.sample, found.index));
  };
  if (samples.length > 1) {
    if (!samples.some((one) => one.index === chosen.sample)) {
      chosen.sample = samples[0]!.index;
    }
    section.append(choice('sample', 'Text', samples.map((one) => (
      {value: String(one.index), label: one.sample.title})),
    String(chosen.sample), (value) => {
      chosen.sample = Number(value);
      show(chosen.sample);
    }));
  }
  show(chosen.sample);
  section.append(box);
  return section;
}

function drawExample(example: Example): HTMLElement {
  return h('figure', {class: 'example'},
    h('figcaption', {class: 'soft small'}, example.title ?? 'Example',
      example.score !== undefined && `, ${share(example.score)}`),
    h('p', {class: 'running', dir: 'auto'}, ...joined(example.tokens,
      example.tokens.map((text, i) => token(text, {
        style: heat(example.weights[i] ?? 0),
        'data-query': i === example.query,
        title: i === example.query ? 'looks'
          : share(example.weights[i] ?? 0),
      })))));
}

export function examplesPart(head: Head): HTMLElement | null {
  if (!head.examples || head.examples.length === 0) return null;
  return h('section', {class: 'question'},
    h('h4', {}, 'Seen in the text'),
    h('p', {class: 'soft small'}, 'The outlined token looks; the stronger ' +
      'the shade, the more a token is looked at.'),
    ...head.examples.map(drawExample));
}
