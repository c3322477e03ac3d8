// The list of heads: searched, sorted, and drawn only where it is seen, so that
// ten thousand are as quick as ten.
import {h} from '../dom';
import {integer, number, signed} from '../format';
import {kindOf} from '../roles';
import type {Entry, Index} from './data';
import type {Numbers} from './search';
import {find, numbersOf, sortBy, textsOf} from './search';

const rowHeight = 34; // as .atlas-row is high
const spare = 6; // rows beyond what is seen

export class HeadList {
  readonly element: HTMLElement;
  private readonly texts: string[];
  private readonly numbers: Numbers[];
  private readonly search: HTMLInputElement;
  private readonly role: HTMLSelectElement;
  private readonly by: HTMLSelectElement;
  private readonly rising: HTMLButtonElement;
  private readonly status = h('p', {class: 'soft small', role: 'status'});
  private readonly rows = h('div', {class: 'atlas-rows'});
  private readonly box: HTMLElement;
  private found: number[] = [];
  private current = '';

  constructor(private readonly index: Index,
              private readonly choose: (entry: Entry) => void) {
    this.texts = textsOf(index.heads);
    this.numbers = numbersOf(index.columns, index.report.importance?.by);
    this.search = h('input', {
      type: 'search', id: 'search', autocomplete: 'off', spellcheck: 'false',
      placeholder: 'induction layer>3 qk_distance<2',
      'aria-describedby': 'search-help', input: () => this.update(),
      keydown: (event: KeyboardEvent) => this.leaveSearch(event),
    });
    this.role = h('select', {id: 'role', change: () => this.update()},
      h('option', {value: ''}, 'any role'),
      ...this.roles().map(([name, count]) => h('option', {value: name},
        `${name} (${count})`)));
    this.by = h('select', {id: 'by', change: () => this.update()},
      ...this.numbers.map((one) => h('option', {value: one.name,
        title: one.words}, one.name)));
    this.by.value = 'layer';
    this.rising = h('button', {
      type: 'button', class: 'step', 'aria-pressed': 'true',
      click: () => {
        this.rising.setAttribute('aria-pressed', String(!this.isRising()));
        this.update();
      },
    });
    this.box = h('div', {
      class: 'atlas-list', role: 'listbox', tabindex: 0,
      'aria-label': 'Heads', scroll: () => this.draw(),
      keydown: (event: KeyboardEvent) => this.move(event),
    }, this.rows);
    this.element = h('section', {class: 'atlas-index', 'aria-label': 'Search'},
      h('label', {for: 'search'}, 'Search heads ',
        h('kbd', {'aria-hidden': 'true'}, '/')),
      this.search,
      h('p', {class: 'soft small', id: 'search-help'},
        'Words of roles, classes and names; numbers by <, > and =.'),
      h('div', {class: 'atlas-sort'},
        h('label', {for: 'role'}, 'Role'), this.role,
        h('label', {for: 'by'}, 'Order'), this.by, this.rising),
      this.status, this.box);
    addEventListener('resize', () => this.draw());
    this.update();
  }

  // Shows which head is chosen, wherever that was done.
  select(id: string): void {
    this.current = id;
    const at = this.place();
    if (at >= 0) {
      const top = at * rowHeight;
      if (top < this.box.scrollTop) this.box.scrollTop = top;
      const seen = this.box.clientHeight - rowHeight;
      if (top > this.box.scrollTop + seen) this.box.scrollTop = top - seen;
    }
    this.draw();
  }

  focusSearch(): void {
    this.search.focus();
    this.search.select();
  }

  // The head so many places on in the list; from none the first.
  step(by: number): void {
    const at = this.place();
    const to = at < 0 ? 0
      : Math.max(0, Math.min(this.found.length - 1, at + by));
    const entry = this.index.heads[this.found[to] ?? -1];
    if (entry !== undefined && entry.id !== this.current) this.choose(entry);
  }

  private isRising(): boolean {
    return this.rising.getAttribute('aria-pressed') === 'true';
  }

  private roles(): [string, number][] {
    const counts = new Map<string, number>();
    for (const entry of this.index.heads) {
      for (const role of entry.roles.length > 0 ? entry.roles : ['no role']) {
        counts.set(role, (counts.get(role) ?? 0) + 1);
      }
    }
    return [...counts].sort((a, b) => b[1] - a[1]);
  }

  private place(): number {
    return this.found.findIndex(
      (i) => this.index.heads[i]?.id === this.current);
  }

  private sorting(): Numbers | undefined {
    return this.numbers.find((one) => one.name === this.by.value);
  }

  private update(): void {
    const {heads} = this.index;
    const found = find(heads, this.texts, this.search.value, this.role.value,
                       this.numbers);
    const by = this.sorting();
    this.found = by === undefined ? found.heads
      : sortBy(found.heads, heads, by, this.isRising());
    this.rising.textContent = this.isRising() ? '↑ rising' : '↓ falling';
    this.search.setAttribute('aria-invalid', String(found.wrong.length > 0));
    this.status.textContent = found.wrong.length > 0
      ? `No number is called like “${found.wrong.join('”, “')}”: ` +
        this.numbers.map((one) => one.name).join(', ')
      : `${integer(this.found.length)} of ${integer(heads.length)} heads`;
    this.box.scrollTop = 0;
    this.draw();
  }

  private row(at: number): HTMLElement | undefined {
    const entry = this.index.heads[this.found[at] ?? -1];
    if (entry === undefined) return undefined;
    const chosen = entry.id === this.current;
    const role = entry.roles[0];
    const by = this.sorting();
    const value = by === undefined || by.name === 'layer' || by.name === 'head'
      ? entry.importance?.class ?? ''
      : numberText(by, by.of(entry));
    return h('div', {
      class: 'atlas-row', role: 'option', id: `row-${entry.file}`,
      'aria-selected': String(chosen), 'aria-setsize': this.found.length,
      'aria-posinset': at + 1, style: `top:${at * rowHeight}px`,
      click: () => this.choose(entry),
    }, h('strong', {}, entry.id),
       h('span', {class: 'chip', 'data-family': kindOf(role).family},
         role ?? 'no role'),
       h('span', {class: 'amount'}, value));
  }

  private draw(): void {
    this.rows.style.height = `${this.found.length * rowHeight}px`;
    const first = Math.max(0,
      Math.floor(this.box.scrollTop / rowHeight) - spare);
    const count = Math.ceil((this.box.clientHeight || 600) / rowHeight) +
      2 * spare;
    const rows: HTMLElement[] = [];
    for (let i = first; i < first + count; ++i) {
      const row = this.row(i);
      if (row !== undefined) rows.push(row);
    }
    this.rows.replaceChildren(...rows);
    const chosen = rows.find((row) =>
      row.getAttribute('aria-selected') === 'true');
    if (chosen === undefined) this.box.removeAttribute('aria-activedescendant');
    else this.box.setAttribute('aria-activedescendant', chosen.id);
  }

  private leaveSearch(event: KeyboardEvent): void {
    if (event.key !== 'ArrowDown' && event.key !== 'Enter') return;
    event.preventDefault();
    this.box.focus();
    if (this.place() < 0) this.step(0);
  }

  private move(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.box.clientHeight / rowHeight) - 1);
    const by = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
                Home: -Infinity, End: Infinity}[event.key];
    if (by === undefined) return;
    event.preventDefault();
    this.step(by);
  }
}

function numberText(by: Numbers, value: number | null): string {
  if (value === null) return '–';
  return by.name === 'effect' ? signed(value)
    : number(value, Math.abs(value) >= 10 ? 1 : 3);
}
