// The card of one head: three questions, the attention drawn, and what is lost
// without it.
import {h} from '../dom';
import {plural} from '../format';
import type {Head, Report} from '../report';
import {kindOf, rolesOf} from '../roles';
import type {Selection} from '../state';
import {addressOf} from '../state';
import {attentionPart, examplesPart} from './attention';
import {contentPart} from './content';
import {effectPart} from './effect';
import {positionsPart} from './positions';
import {relationPart} from './relation';

function chips(head: Head): HTMLElement {
  const roles = rolesOf(head);
  const importance = head.importance;
  return h('p', {class: 'chips'},
    ...(roles.length === 0
      ? [h('span', {class: 'chip', 'data-family': 'none'}, 'no role')]
      : roles.map((role) => h('span', {
          class: 'chip', 'data-family': kindOf(role.name).family,
        }, role.name))),
    importance?.class &&
      h('span', {class: 'chip plain'}, importance.class),
    importance?.rank !== undefined &&
      h('span', {class: 'chip plain'}, `importance rank ${importance.rank}`));
}

// The head in one sentence.
function gist(head: Head): string {
  const says = rolesOf(head).map((role) => kindOf(role.name).says +
    (role.sink_excluded ? ' (when it is not at the sink)' : ''));
  if (says.length === 0) {
    return 'No role passed its threshold: what this head does has no name ' +
      'here.';
  }
  const unique = [...new Set(says)].filter((one) => one !== '');
  return `It ${unique.join('; it also ')}.`;
}

// The address that opens the page at this head; a press copies it.
function permalink(head: Head): HTMLElement {
  const link = h('a', {
    class: 'permalink', href: addressOf(head.id),
    title: 'Copy the link to this head',
    'aria-label': `Copy the link to head ${head.id}`,
    click: () => {
      const address = new URL(addressOf(head.id), location.href).href;
      navigator.clipboard?.writeText(address).then(
        () => { link.textContent = 'copied'; }, () => undefined);
    },
  }, '#');
  return link;
}

// Where the addresses of all heads lead: the browser itself goes there when a
// page is opened at one, and comes back from there.
function anchors(report: Report): HTMLElement {
  return h('div', {class: 'anchors', 'aria-hidden': 'true'},
    ...report.heads.map((head) => h('span', {id: `head-${head.id}`})));
}

function card(head: Head, report: Report, selection: Selection): HTMLElement {
  const at = report.heads.indexOf(head);
  const step = (by: number): HTMLElement => {
    const to = report.heads[at + by];
    return h('button', {
      type: 'button', class: 'step', disabled: to === undefined,
      'aria-label': by < 0 ? 'Previous head' : 'Next head',
      click: () => {
        if (to === undefined) return;
        selection.select(to.id);
        document.querySelector<HTMLElement>(
          `.card .step:${by < 0 ? 'first' : 'last'}-of-type`)?.focus();
      },
    }, by < 0 ? '←' : '→');
  };
  return h('article', {class: 'card', 'aria-labelledby': 'card-title'},
    h('header', {},
      h('div', {class: 'card-top'},
        h('h3', {id: 'card-title'}, `Head ${head.id}`),
        permalink(head),
        h('div', {class: 'steps'}, step(-1), step(1))),
      chips(head),
      h('p', {class: 'gist'}, gist(head))),
    positionsPart(head, report),
    relationPart(head),
    contentPart(head, report),
    attentionPart(head, report),
    examplesPart(head),
    effectPart(head, report));
}

export function cardPanel(report: Report, selection: Selection): HTMLElement {
  const panel = h('div', {class: 'panel'});
  const targets = anchors(report);
  // Told in words for those who do not see the card change.
  const status = h('p', {class: 'visually-hidden', role: 'status'});
  selection.follow((head) => {
    panel.replaceChildren(targets, status,
      card(head, report, selection));
    status.textContent = `Head ${head.id}, ` +
      plural(rolesOf(head).length, 'role');
  });
  return panel;
}
