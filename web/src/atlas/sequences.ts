// The sequences of a head, by intervals of its strength: running text, shaded
// by the largest attention that each token gets; pressed, a token shows what it
// reads itself.
import {choice, h} from '../dom';
import {integer, percent, share, shown} from '../format';
import type {Index, Sequence} from './data';

// Whole texts at a time would be long; the rest comes on demand.
const shownAtOnce = 6;

interface Reads {
  most: number[]; // attention that a token gets, at most
  strongest: number; // the query of the strongest link
}

// As HeadVis counts: without the first query and the first key.
function readsOf(sequence: Sequence): Reads {
  const n = sequence.tokens.length;
  const most = new Array<number>(n).fill(0);
  let strongest = -1;
  let largest = 0;
  sequence.places.forEach((place, i) => {
    const query = Math.floor(place / n);
    const key = place % n;
    const value = (sequence.shares[i] ?? 0) / 1000;
    if (query === 0 || key === 0) return;
    most[key] = Math.max(most[key] ?? 0, value);
    if (value > largest) {
      largest = value;
      strongest = query;
    }
  });
  return {most, strongest};
}

function rowOf(sequence: Sequence, query: number): number[] {
  const n = sequence.tokens.length;
  const row = new Array<number>(n).fill(0);
  sequence.places.forEach((place, i) => {
    if (Math.floor(place / n) === query) {
      row[place % n] = (sequence.shares[i] ?? 0) / 1000;
    }
  });
  return row;
}

class Text {
  readonly element: HTMLElement;
  private readonly words: HTMLButtonElement[];
  private readonly note = h('p', {class: 'soft small', role: 'status'});
  private readonly reads: Reads;
  private query = -1;

  constructor(private readonly sequence: Sequence) {
    this.reads = readsOf(sequence);
    this.words = sequence.tokens.map((token, i) => h('button', {
      type: 'button', class: 'word-token', tabindex: i === 0 ? 0 : -1,
      click: () => this.look(i === this.query ? -1 : i),
      keydown: (event: KeyboardEvent) => this.move(event, i),
    }, shown(token)));
    this.element = h('div', {class: 'atlas-text'},
      h('p', {class: 'figure-title'},
        `Sequence ${integer(sequence.number)}, largest attention ` +
        share(sequence.strength)),
      h('p', {class: 'running'}, ...this.words), this.note);
    this.look(-1);
  }

  private move(event: KeyboardEvent, at: number): void {
    const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    const to = by === undefined ? undefined : this.words[at + by];
    if (to === undefined) return;
    event.preventDefault();
    this.words[at]?.setAttribute('tabindex', '-1');
    to.setAttribute('tabindex', '0');
    to.focus();
  }

  // Of one query; −1: of all.
  private look(query: number): void {
    this.query = query;
    const values = query < 0 ? this.reads.most : rowOf(this.sequence, query);
    this.words.forEach((word, i) => {
      word.style.setProperty('--share', String(values[i] ?? 0));
      word.setAttribute('aria-pressed', String(i === query));
      word.title = percent(values[i] ?? 0);
    });
    this.note.textContent = query < 0 ? this.strongestText()
      : this.rowText(query, values);
  }

  private token(i: number): string {
    return `“${shown(this.sequence.tokens[i] ?? '').trim()}”`;
  }

  private strongestText(): string {
    const query = this.reads.strongest;
    if (query < 0) return 'No attention that is kept leaves the first token.';
    const row = rowOf(this.sequence, query);
    row[0] = 0;
    const key = row.indexOf(Math.max(...row));
    return `Most: ${this.token(query)} (token ${query}) reads ` +
      `${this.token(key)} (token ${key}) with ${percent(row[key] ?? 0)}.`;
  }

  private rowText(query: number, row: number[]): string {
    const keys = row.map((value, i) => ({value, i}))
      .filter((one) => one.value > 0).sort((a, b) => b.value - a.value);
    const kept = keys.reduce((sum, one) => sum + one.value, 0);
    return `${this.token(query)} (token ${query}) reads ` +
      (keys.length === 0 ? 'nothing that is kept.'
        : keys.slice(0, 5).map((one) => `${this.token(one.i)} ` +
            percent(one.value)).join(', ') +
          `; kept are ${percent(kept)} of its attention.`);
  }
}

function texts(sequences: Sequence[]): HTMLElement {
  const list = h('div', {});
  const add = (from: number): void => {
    for (const one of sequences.slice(from, from + shownAtOnce)) {
      list.append(new Text(one).element);
    }
    const left = sequences.length - from - shownAtOnce;
    if (left <= 0) return;
    const more = h('button', {type: 'button', class: 'step', click: () => {
      more.remove();
      add(from + shownAtOnce);
    }}, `${left} more`);
    list.append(more);
  };
  add(0);
  return list;
}

export function sequencesPart(sequences: Sequence[], index: Index):
    HTMLElement {
  const by = (interval: number): Sequence[] =>
    sequences.filter((one) => one.interval === interval);
  const present = [...new Set(sequences.map((one) => one.interval))]
    .sort((a, b) => b - a);
  const place = h('div', {});
  const show = (interval: string): void =>
    place.replaceChildren(texts(by(Number(interval))));
  const start = String(present[0] ?? index.intervals);
  show(start);
  return h('section', {class: 'question'},
    h('h4', {}, 'At work'),
    h('p', {class: 'soft'}, 'Sequences of the text by the largest attention ' +
      `in them, in ${index.intervals} intervals: the highest holds those in ` +
      'which this head is strongest, the others are samples. Shade: the ' +
      'largest attention that a token gets. Press a token to see what it ' +
      `reads (at most ${index.keys} keys).`),
    choice('interval', 'Interval', present.map((interval) => ({
      value: String(interval),
      label: interval === index.intervals ? `${interval}, strongest`
        : String(interval),
    })), start, show),
    place);
}
