// The page of a report: reads the JSON that the program put into the page and
// builds every part of it. What the data has to look like: report.ts.
import {defined} from './defined';
import {h} from './dom';
import type {Report} from './report';
import {learnKinds} from './roles';
import {cardPanel} from './sections/card';
import {compositionSection} from './sections/composition';
import {gridSection} from './sections/grid';
import {importanceSection} from './sections/importance';
import {peekBar} from './sections/peek';
import {definitionsSection, footer, tableSection} from './sections/reference';
import {similaritySection} from './sections/similarity';
import {summarySection} from './sections/summary';
import {thirdsSection} from './sections/thirds';
import {Selection} from './state';
import {themeSwitch} from './theme';

const parts: [string, string][] = [
  ['heads', 'Heads'], ['layers', 'Layers'], ['importance', 'Importance'],
  ['similarity', 'Alike'], ['composition', 'Feeding'], ['table', 'Table'],
  ['definitions', 'Definitions'],
];

function navigation(report: Report): HTMLElement {
  return h('nav', {class: 'top', 'aria-label': 'Parts of the report'},
    h('a', {class: 'skip', href: '#heads'}, 'Skip to the heads'),
    h('a', {class: 'brand', href: '#summary', title: report.model.name},
      'Headwise'),
    h('ul', {}, ...parts.map(([id, name]) => h('li', {},
      h('a', {href: `#${id}`}, name)))),
    themeSwitch());
}

function build(report: Report): Node[] {
  if (report.format !== 'headwise.report/1') {
    throw new Error(`expected a headwise.report/1; found ${report.format}`);
  }
  document.title = `${report.model.name} · Headwise report`;
  learnKinds(report);
  const selection = new Selection(report);
  const card = cardPanel(report, selection);
  return [
    navigation(report),
    h('main', {},
      summarySection(report),
      h('section', {id: 'heads'},
        h('h2', {}, 'The heads'),
        h('div', {class: 'master'}, gridSection(report, selection), card)),
      thirdsSection(report),
      importanceSection(report, selection),
      similaritySection(report, selection),
      compositionSection(report, selection),
      tableSection(report),
      definitionsSection(report)),
    peekBar(report, selection, card),
    footer(report),
  ];
}

// Paper cannot be unfolded.
function unfoldForPrint(): void {
  let folded: HTMLDetailsElement[] = [];
  addEventListener('beforeprint', () => {
    folded = [...document.querySelectorAll<HTMLDetailsElement>(
      'details.printed:not([open])')];
    for (const one of folded) one.open = true;
  });
  addEventListener('afterprint', () => {
    for (const one of folded) one.open = false;
  });
}

const page = document.getElementById('page');
const data = document.getElementById('report')?.textContent ?? '';
try {
  page?.replaceChildren(...build(defined(JSON.parse(data) as Report)));
  unfoldForPrint();
} catch (error) {
  page?.replaceChildren(h('main', {}, h('h1', {}, 'This report is broken'),
    h('p', {}, String(error))));
}
