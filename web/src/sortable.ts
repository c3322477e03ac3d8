// Tables that are put in order by a press on a heading, and in the other
// direction by a second press.
import {h, table, type Child} from './dom';

// What a cell is ordered by; undefined stands last in either direction.
export type Key = number | string | undefined;

export interface Column {
  name: string;
  // The order of the first press. Numbers are asked for their largest.
  first: 'ascending' | 'descending';
}

export interface Cell {
  shown: Child;
  key: Key;
}

function compare(a: Key, b: Key, sign: number): number {
  if (a === undefined || b === undefined) {
    return Number(a === undefined) - Number(b === undefined);
  }
  if (typeof a === 'number' && typeof b === 'number') return sign * (a - b);
  return sign * String(a).localeCompare(String(b));
}

// In the order of `rows` until a heading is pressed; equal rows stay in it.
export function sortableTable(caption: string, columns: Column[],
                              rows: Cell[][]): HTMLElement {
  const box = table(caption, columns.map((column) => column.name),
    rows.map((row) => row.map((cell) => cell.shown)));
  const body = box.querySelector('tbody');
  const lines = [...body?.children ?? []];
  const headings = [...box.querySelectorAll('thead th')];
  headings.forEach((heading, at) => {
    const column = columns[at];
    if (column === undefined) return;
    const press = (): void => {
      const was = heading.getAttribute('aria-sort');
      const other = column.first === 'ascending' ? 'descending' : 'ascending';
      const now = was === column.first ? other : column.first;
      for (const one of headings) one.removeAttribute('aria-sort');
      heading.setAttribute('aria-sort', now);
      const sign = now === 'ascending' ? 1 : -1;
      const order = [...rows.keys()].sort((a, b) =>
        compare(rows[a]?.[at]?.key, rows[b]?.[at]?.key, sign) || a - b);
      body?.append(...order.flatMap((i) => lines[i] ?? []));
    };
    heading.replaceChildren(h('button', {
      type: 'button', class: 'sort', title: `Order by ${column.name}`,
      click: press,
    }, column.name));
  });
  return box;
}
