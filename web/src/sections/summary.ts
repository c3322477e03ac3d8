// The top of the page: which model, on what text, and what was found, in words.
import {h} from '../dom';
import {integer, plural, short} from '../format';
import type {Importance, Report} from '../report';
import {hasFunction, rolesOf} from '../roles';

function tile(value: string, label: string): HTMLElement {
  return h('div', {class: 'tile'}, h('dt', {}, label), h('dd', {}, value));
}

// Whether heads hurt: how many, or why there is no telling.
function hurtTile(importance: Importance): HTMLElement | undefined {
  const answer = importance.hurting?.answer;
  const reason = importance.hurting?.reason ?? '';
  if (answer === 'not-tested') {
    return tile('not tested', `whether heads hurt: ${reason}`);
  }
  if (answer === 'not-testable') {
    return tile('not testable', `whether heads hurt: ${reason}`);
  }
  if (!importance.negative) return undefined;
  const by = importance.least_negative;
  const {predictions, smallest_seen: seen} = importance.hurting ?? {};
  const rests = !predictions ? '' : `; on ${integer(predictions)} predictions` +
    (seen ? `, intervals that tell ${seen.toPrecision(2)} from 0 of every ` +
      'head' : '');
  return tile(String(importance.negative.length),
    'heads hurt: without them the loss is lower' +
    (by ? ` by more than ${by.toPrecision(1)}` : '') +
    (importance.negative.length === 0 ? rests : ''));
}

function tiles(report: Report): HTMLElement {
  const heads = report.heads.length;
  const withRole = report.heads.filter(hasFunction).length;
  const broad = report.heads.filter((head) => rolesOf(head).length).length -
    withRole;
  const list = h('dl', {class: 'tiles'},
    tile(`${withRole} of ${heads}`, 'heads with a role' +
      (broad === 0 ? '' : `; ${broad} more only broad`)));
  const importance = report.importance;
  if (importance?.carry) {
    list.append(tile(`${importance.carry.heads} of ${heads}`,
      `heads carry ${Math.round(100 * importance.carry.share)} % of the ` +
      'importance'));
  }
  const chosen = importance?.criteria.find((c) => c.name === importance.by);
  if (chosen?.effective !== undefined) {
    list.append(tile(chosen.effective.toFixed(1), 'effective heads'));
  }
  const hurt = importance && hurtTile(importance);
  if (hurt) list.append(hurt);
  if (report.profile?.tokens !== undefined) {
    list.append(tile(integer(report.profile.tokens), 'tokens read'));
  }
  return list;
}

function facts(report: Report): string {
  const model = report.model;
  const layers = new Set(report.heads.map((g) => `${g.kind} ${g.layer}`)).size;
  const parts = [
    model.type && model.kind ? `${model.type} ${model.kind}` : model.type,
    `${plural(layers, 'attention layer')}, ` +
      plural(report.heads.length, 'head'),
    model.width !== undefined && `width ${model.width}`,
    model.parameters !== undefined && `${short(model.parameters)} parameters`,
  ].filter(Boolean);
  return parts.join(' · ');
}

function material(report: Report): string {
  const profile = report.profile;
  if (profile === undefined) return '';
  const texts = profile.texts ?? [];
  const named = texts.slice(0, 3).join(', ') +
    (texts.length > 3 ? ` and ${texts.length - 3} more` : '');
  const parts = [
    profile.tokens !== undefined && plural(profile.tokens, 'token'),
    profile.sequences !== undefined && plural(profile.sequences, 'sequence'),
    profile.context !== undefined && `at most ${profile.context} tokens each`,
  ].filter(Boolean).join(', ');
  return `Read on ${named || 'the given text'}: ${parts}.`;
}

export function summarySection(report: Report): HTMLElement {
  const [lead, ...rest] = report.summary.sentences;
  return h('header', {class: 'summary', id: 'summary'},
    h('p', {class: 'kicker'}, 'What every attention head does'),
    h('h1', {}, report.model.name),
    h('p', {class: 'facts'}, facts(report)),
    lead !== undefined && h('p', {class: 'lead'}, lead),
    tiles(report),
    rest.length > 0 && h('ul', {class: 'findings'},
      ...rest.map((sentence) => h('li', {}, sentence))),
    h('p', {class: 'soft'}, material(report)));
}
