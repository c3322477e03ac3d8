// The head that was chosen in a drawing, told at the foot of the window (at its
// top, where the mark is low) while its card is out of sight: a press on a mark
// must not carry the reader away.
import {h} from '../dom';
import {share, signed} from '../format';
import type {Head, Report} from '../report';
import {firstRole, kindOf, rolesOf} from '../roles';
import type {Selection} from '../state';
import {addressOf} from '../state';
import {headLink} from './link';

function importanceOf(head: Head, report: Report): string {
  const by = report.importance?.by;
  const effect = by === undefined ? undefined : head.importance?.values[by];
  if (effect === undefined) return '';
  const rank = head.importance?.rank;
  return `${by} ${signed(effect.value)}` + (rank === undefined ? ''
    : `, rank ${rank} of ${report.heads.length}`);
}

function content(head: Head, report: Report, close: () => void): Node[] {
  const role = firstRole(head);
  const more = rolesOf(head).length - 1;
  const facts = [kindOf(role?.name).says, importanceOf(head, report)]
    .filter((one) => one !== '');
  return [
    h('strong', {class: 'peek-name'}, `Head ${head.id}`),
    h('span', {class: 'chip', 'data-family': kindOf(role?.name).family},
      role === undefined ? 'no role' : `${role.name} ${share(role.score)}`,
      more > 0 && ` +${more}`),
    h('span', {class: 'peek-facts'}, facts.join(' · ')),
    headLink(head.id, 'Open its card', {
      class: 'step', 'aria-label': `Open its card: head ${head.id}`}),
    h('button', {type: 'button', class: 'step', 'aria-label': 'Close',
                 click: close}, '×'),
  ];
}

export function peekBar(report: Report, selection: Selection,
                        card: HTMLElement): HTMLElement {
  const bar = h('aside', {class: 'peek', 'aria-label': 'The chosen head',
                          hidden: true});
  let shown: Head | undefined;
  let pressed: Element | undefined;
  const close = (): void => {
    shown = undefined;
    pressed = undefined;
    bar.hidden = true;
  };
  selection.onGlance((head, mark) => {
    if (mark === pressed) { // a second time: to the card
      location.hash = addressOf(head.id);
      return;
    }
    shown = head;
    pressed = mark;
    bar.replaceChildren(...content(head, report, close));
    bar.hidden = false;
    bar.toggleAttribute('data-high',
      mark.getBoundingClientRect().bottom > innerHeight / 2);
  });
  selection.follow((head) => { if (shown !== head) close(); });
  new IntersectionObserver(([entry]) => {
    if (entry?.isIntersecting) close();
  }, {rootMargin: '-20% 0px'}).observe(card);
  addEventListener('keydown', (event) => {
    if (event.key === 'Escape') close();
  });
  return bar;
}
