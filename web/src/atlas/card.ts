// The page of one head.
import {figure, h, room, s, table} from '../dom';
import {alone, interval, number, share, signed} from '../format';
import type {Report} from '../report';
import {kindOf} from '../roles';
import {max} from '../scale';
import {contentPart} from '../sections/content';
import {effectPart} from '../sections/effect';
import {barList, positionsPart} from '../sections/positions';
import {relationPart} from '../sections/relation';
import type {Entry, HeadFile, Index, Reading} from './data';
import {sequencesPart} from './sequences';

function heading(entry: Entry): HTMLElement {
  const importance = entry.importance;
  return h('header', {},
    h('div', {class: 'card-top'},
      h('h2', {id: 'card-title', tabindex: -1}, `Head ${entry.id}`)),
    h('p', {class: 'chips'},
      ...(entry.roles.length > 0 ? entry.roles : ['no role']).map((role) =>
        h('span', {class: 'chip', 'data-family': kindOf(role).family}, role)),
      importance?.class !== undefined &&
        h('span', {class: 'chip plain'}, importance.class),
      importance?.rank !== undefined &&
        h('span', {class: 'chip plain'}, `importance rank ${importance.rank}`)));
}

// Ours of the same: rows that count alone, with intervals.
const ours: Record<string, string> = {
  self_attention_score: 'self', prev_token_score: 'previous',
  pattern_entropy: 'entropy', qk_distance: 'distance',
  induction_score: 'induction',
};

function placeOf(index: Index, column: number, value: number): string {
  const larger = index.heads.filter(
    (one) => (one.values[column] ?? -Infinity) > value).length;
  return `${larger + 1} of ${index.heads.length}`;
}

function metricsPart(file: HeadFile, index: Index): HTMLElement {
  const write = (value: number): string =>
    number(value, Math.abs(value) >= 100 ? 1 : 3);
  return h('section', {class: 'question'},
    h('h4', {}, 'HeadVis’ six metrics, over every row of the text'),
    table('Beside them ours, of rows that count, with 95 % intervals',
      ['Metric', 'Value', 'Place', 'Ours'],
      index.columns.map((column, i) => {
        const value = file.metrics[i] ?? null;
        const own = file.head.metrics?.[ours[column.name] ?? ''];
        return [
          h('span', {title: column.words}, column.name),
          value === null ? '–' : write(value),
          value === null ? '' : placeOf(index, i, value),
          own === undefined || own.mean === null ? ''
            : interval(own.mean, own.low, own.high, write),
        ];
      })));
}

function strengths(file: HeadFile): HTMLElement {
  const width = room(520);
  const height = 92;
  const most = max(file.strengths, (count) => count) || 1;
  const step = width / file.strengths.length;
  const scale = (count: number): number =>
    (height - 20) * Math.log1p(count) / Math.log1p(most);
  return h('div', {class: 'figure'},
    h('p', {class: 'figure-title'}, 'Largest attention in a sequence ' +
      '(without the first token): number of sequences, logarithmic; mean ' +
      share(file.mean_strength)),
    figure('Sequences by their largest attention, from 0 to 1; mean ' +
      share(file.mean_strength), width, height,
      ...file.strengths.map((count, i) => s('g', {class: 'bar'},
        s('title', {}, `${(i / file.strengths.length).toFixed(2)}: ${count}`),
        s('rect', {x: i * step, y: height - 16 - scale(count),
                   width: 0.8 * step, height: scale(count)}))),
      ...[0, 0.5, 1].map((at) => s('text', {
        x: at * width, y: height - 2, class: 'tick',
        'text-anchor': at === 0 ? 'start' : at === 1 ? 'end' : 'middle',
      }, share(at)))));
}

function tokensPart(file: HeadFile): HTMLElement {
  return h('section', {class: 'question'},
    h('h4', {}, 'Tokens of its strongest links'),
    h('p', {class: 'soft'}, 'Of every row of the text its largest attention, ' +
      'the first key left out: shares of that, by the token that reads and ' +
      'by the one that is read. Each is too small by .001 at most.'),
    h('div', {class: 'atlas-pair'},
      barList('Tokens that read', file.query_tokens),
      barList('Tokens that are read', file.key_tokens)));
}

function matchesPart(matches: Reading[] | undefined): HTMLElement | undefined {
  if (matches === undefined) return undefined;
  return h('section', {class: 'question'},
    h('h4', {}, 'What its queries match, by weights'),
    h('p', {class: 'soft'}, 'W_Q·W_Kᵀ of embeddings at equal positions, ' +
      'without biases: scores above the mean of the text’s frequent tokens. ' +
      'Layers behind the first read something else than embeddings.'),
    h('div', {class: 'scroll'}, h('table', {class: 'writes'},
      h('thead', {class: 'visually-hidden'}, h('tr', {},
        h('th', {scope: 'col'}, 'Token that reads'),
        h('th', {scope: 'col'}, 'Tokens it matches best'))),
      h('tbody', {}, ...matches.map((row) => h('tr', {},
        h('th', {scope: 'row'}, h('bdi', {class: 'token'}, alone(row.token))),
        h('td', {}, ...row.top.flatMap((one) => [
          h('bdi', {class: one.token === row.token ? 'token same' : 'token',
                    title: `score ${signed(one.logit)}`},
            alone(one.token)), ' ']))))))));
}

export function card(entry: Entry, file: HeadFile, index: Index,
                     report: Report): HTMLElement {
  return h('article', {class: 'card', 'aria-labelledby': 'card-title'},
    heading(entry),
    metricsPart(file, index),
    sequencesPart(file.sequences, index),
    positionsPart(file.head, report),
    h('section', {class: 'question'},
      h('h4', {}, 'How strong it gets'), strengths(file)),
    relationPart(file.head),
    tokensPart(file),
    matchesPart(file.matches),
    contentPart(file.head, report),
    effectPart(file.head, report));
}
