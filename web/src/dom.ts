// Making elements. Text goes in as text nodes only, so that no string of the
// data can become markup.

export type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined |
  ((event: never) => void)>;

const svgSpace = 'http://www.w3.org/2000/svg';

function fill<E extends Element>(element: E, attributes: Attributes,
                                 children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === 'function') {
      element.addEventListener(name, value as (event: Event) => void);
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export function h<K extends keyof HTMLElementTagNameMap>(
    tag: K, attributes: Attributes = {}, ...children: Child[]):
    HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function s<K extends keyof SVGElementTagNameMap>(
    tag: K, attributes: Attributes = {}, ...children: Child[]):
    SVGElementTagNameMap[K] {
  return fill(document.createElementNS(svgSpace, tag) as
    SVGElementTagNameMap[K], attributes, children);
}

// How wide to draw: as wide as there is room, so that text keeps its size.
export function room(most: number): number {
  return Math.max(280, Math.min(most,
    document.documentElement.clientWidth - 72));
}

// A drawing that says in words what it shows.
export function figure(label: string, width: number, height: number,
                       ...children: Child[]): SVGSVGElement {
  return s('svg', {
    viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
    'aria-label': label, class: 'chart',
  }, ...children);
}

// Buttons of which one is pressed, as radio buttons: arrows move, Tab leaves.
export function choice(name: string, legend: string,
                       options: {value: string; label: string}[],
                       value: string,
                       onChange: (value: string) => void): HTMLElement {
  return h('fieldset', {class: 'choice'}, h('legend', {}, legend),
    ...options.map((option) => h('label', {},
      h('input', {
        type: 'radio', name, value: option.value,
        checked: option.value === value,
        change: () => onChange(option.value),
      }),
      h('span', {}, option.label))));
}

// A table whose first column heads its rows. Columns of words stand to the
// left, columns of numbers to the right.
export function table(caption: string, columns: string[], rows: Child[][],
                      attributes: Attributes = {}): HTMLElement {
  const side = columns.map((_, i) => rows.some((row) =>
    typeof row[i] === 'string' && /^\p{L}/u.test(row[i])) ? 'left' : undefined);
  return h('div', {class: 'scroll', tabindex: 0, role: 'region',
                   'aria-label': caption},
    h('table', attributes,
      h('caption', {}, caption),
      h('thead', {}, h('tr', {}, ...columns.map((column, i) =>
        h('th', {scope: 'col', class: side[i]}, column)))),
      h('tbody', {}, ...rows.map((row) => h('tr', {}, ...row.map(
        (cell, i) => i === 0 ? h('th', {scope: 'row'}, cell)
                             : h('td', {class: side[i]}, cell)))))));
}

// The numbers behind a chart, folded away.
export function behind(...children: Child[]): HTMLElement {
  return h('details', {class: 'behind'},
    h('summary', {}, 'The same as a table'), ...children);
}

// One tab stop for many marks: arrows, Home and End move among them.
// `step` gives the index an arrow leads to; by default neighbours in order.
export function roving(marks: (HTMLElement | SVGElement)[], start: number,
                       step: (at: number, key: string) => number =
                         (at, key) => at + (/Right|Down/.test(key) ? 1 : -1)):
    void {
  const show = (index: number): void => marks.forEach(
    (mark, i) => mark.setAttribute('tabindex', i === index ? '0' : '-1'));
  show(start);
  marks.forEach((mark, at) => {
    mark.addEventListener('focus', () => show(at));
    mark.addEventListener('keydown', (event) => {
      const key = (event as KeyboardEvent).key;
      let to = at;
      if (key.startsWith('Arrow')) to = step(at, key);
      else if (key === 'Home') to = 0;
      else if (key === 'End') to = marks.length - 1;
      else return;
      event.preventDefault();
      const next = marks[Math.max(0, Math.min(marks.length - 1, to))];
      next?.focus();
    });
  });
}
