// Layers × heads: the map of the model. An ARIA grid: arrows move, and the head
// under the cursor is shown in the card beside it.
import {choice, h, roving} from '../dom';
import {share, signed} from '../format';
import type {Head, Report} from '../report';
import {firstRole, kindOf, rolesOf, stem} from '../roles';
import {max} from '../scale';
import type {Selection} from '../state';

const kindTitles: Record<string, string> = {
  self: 'Self-attention', decoder: 'Self-attention of the decoder',
  cross: 'Cross-attention',
};

function effectOf(head: Head, by: string | undefined): number | undefined {
  return by === undefined ? undefined : head.importance?.values[by]?.value;
}

function labelOf(head: Head, by: string | undefined): string {
  const roles = rolesOf(head).map(
    (role) => `${role.name} ${share(role.score)}`).join(', ') || 'no role';
  const effect = effectOf(head, by);
  return `Head ${head.id}: ${roles}` +
    (effect === undefined ? '' : `; importance ${signed(effect)}`) +
    (head.importance?.class ? `; ${head.importance.class}` : '');
}

// One cell. Role: colour and letters. Importance: strength, a bar, a number;
// heads that hurt are hatched.
function cell(head: Head, by: string | undefined, most: number):
    HTMLButtonElement {
  const role = firstRole(head);
  const kind = kindOf(role?.name);
  const effect = effectOf(head, by) ?? 0;
  const strength = most > 0 ? Math.max(0, effect) / most : 0;
  const more = rolesOf(head).length - 1;
  return h('button', {
    type: 'button', role: 'gridcell', class: 'cell', 'data-head': head.id,
    'data-family': kind.family, 'data-stem': role ? stem(role.name) : 'no role',
    'data-hurts': effect < 0 && head.importance?.class === 'negative',
    'aria-label': labelOf(head, by), title: labelOf(head, by),
    style: `--strength:${Math.sqrt(strength).toFixed(3)}`,
  },
  h('span', {class: 'word', 'aria-hidden': 'true'}, kind.word,
    more > 0 && h('sup', {}, `+${more}`)),
  h('span', {class: 'sign', 'aria-hidden': 'true'}, kind.sign),
  h('span', {class: 'effect', 'aria-hidden': 'true'},
    effect < 0 ? '−' : '', h('span', {class: 'digits'},
      most > 0 ? share(Math.abs(effect) / most) : '')));
}

function oneGrid(kind: string, heads: Head[], by: string | undefined,
                 most: number, selection: Selection): HTMLElement {
  const layers = [...new Set(heads.map((head) => head.layer))];
  const columns = 1 + Math.max(...heads.map((head) => head.head));
  const cells: HTMLButtonElement[] = [];
  const order: Head[] = [];
  const rows = layers.map((layer) => {
    const row = h('div', {role: 'row', class: 'row'},
      h('span', {role: 'rowheader', class: 'label'}, String(layer)));
    for (const head of heads.filter((one) => one.layer === layer)) {
      const button = cell(head, by, most);
      button.addEventListener('click', () => selection.select(head.id));
      button.addEventListener('focus', () => selection.select(head.id));
      cells.push(button);
      order.push(head);
      row.append(button);
    }
    return row;
  });
  const at = (layer: number, head: number): number => {
    const row = order.map((one, i) => ({one, i}))
      .filter(({one}) => one.layer === layer);
    return (row[Math.min(head, row.length - 1)] ?? {i: 0}).i;
  };
  roving(cells, Math.max(0, order.indexOf(selection.current)), (from, key) => {
    const head = order[from]!;
    const row = layers.indexOf(head.layer);
    if (key === 'ArrowLeft') return from - 1;
    if (key === 'ArrowRight') return from + 1;
    const to = layers[row + (key === 'ArrowDown' ? 1 : -1)];
    return to === undefined ? from : at(to, head.head);
  });
  selection.follow((head) => cells.forEach((button, i) => {
    button.setAttribute('aria-selected', String(order[i] === head));
    if (order[i] === head) {
      cells.forEach((one) => { one.tabIndex = one === button ? 0 : -1; });
    }
  }));
  const header = h('div', {role: 'row', class: 'row heading'},
    h('span', {role: 'columnheader', class: 'label'}, ''),
    ...Array.from({length: columns}, (_, i) =>
      h('span', {role: 'columnheader', class: 'label'}, String(i))));
  return h('div', {class: 'grid-box'},
    h('p', {class: 'axis-title'}, `${kindTitles[kind] ?? kind}: rows are ` +
      'layers, columns are heads'),
    h('div', {
      role: 'grid', class: 'grid', 'data-columns': columns,
      style: `--columns:${columns}`,
      'aria-label': `${kindTitles[kind] ?? kind}: layers by heads`,
    }, header, ...rows));
}

// The roles that occur, with their letters; pressing one dims the others.
function legend(report: Report, box: HTMLElement): HTMLElement {
  const counts = new Map<string, number>();
  for (const head of report.heads) {
    const name = stem(firstRole(head)?.name ?? 'no role');
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  let only: string | undefined;
  const buttons = [...counts].sort((a, b) =>
    Number(a[0] === 'no role') - Number(b[0] === 'no role') || b[1] - a[1])
    .map(([name, count]) => {
      const kind = kindOf(name);
      const button = h('button', {
        type: 'button', class: 'key', 'aria-pressed': 'false',
        title: kind.says, 'data-family': kind.family,
      }, h('span', {class: 'swatch', 'aria-hidden': 'true'}, kind.sign),
      `${name} `, h('span', {class: 'count'}, String(count)));
      button.addEventListener('click', () => {
        only = only === name ? undefined : name;
        for (const other of buttons) {
          other.setAttribute('aria-pressed',
            String(other === button && only !== undefined));
        }
        box.querySelectorAll<HTMLElement>('.cell').forEach((one) => {
          one.toggleAttribute('data-dim',
            only !== undefined && one.dataset.stem !== only);
        });
      });
      return button;
    });
  return h('div', {class: 'legend', role: 'group',
                   'aria-label': 'Roles; press one to see its heads alone'},
    ...buttons);
}

export function gridSection(report: Report, selection: Selection): HTMLElement {
  const by = report.importance?.by;
  const most = max(report.heads, (head) => effectOf(head, by)) ?? 0;
  const box = h('div', {class: 'grids', 'data-colour': 'role'});
  for (const kind of new Set(report.heads.map((head) => head.kind))) {
    box.append(oneGrid(kind, report.heads.filter((one) => one.kind === kind),
      by, most, selection));
  }
  const colour = by === undefined ? null : choice('colour', 'Colour by', [
    {value: 'role', label: 'Role'}, {value: 'importance', label: 'Importance'},
  ], 'role', (value) => { box.dataset.colour = value; });
  return h('div', {class: 'map'}, colour, box, legend(report, box),
    h('p', {class: 'soft small'},
      'A cell is a head; its letters are its first role, +n counts further ' +
      'ones.' + (by === undefined ? '' :
        ` Importance is ${by}, as a share of the most important head's; ` +
        'hatched heads hurt the model.') +
      ' Arrow keys move through the grid.'));
}
