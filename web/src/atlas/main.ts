// The page of an atlas: a list of all heads beside the one that is shown, which
// the address names (index.html#5.1).
import {defined} from '../defined';
import {h} from '../dom';
import {integer} from '../format';
import type {Head, Report} from '../report';
import {learnKinds} from '../roles';
import {themeSwitch} from '../theme';
import {card} from './card';
import type {Entry, Index} from './data';
import {HeadFiles, loadIndex} from './data';
import {HeadList} from './list';

function navigation(report: Report): HTMLElement {
  return h('nav', {class: 'top', 'aria-label': 'Atlas'},
    h('a', {class: 'skip', href: '#card'}, 'Skip to the head'),
    h('strong', {class: 'brand'}, 'Headwise atlas'),
    h('span', {class: 'atlas-model'}, report.model.name),
    themeSwitch());
}

function facts(index: Index): HTMLElement {
  const texts = index.report.profile?.texts ?? [];
  const profiled = index.report.profile?.tokens;
  return h('header', {class: 'atlas-facts'},
    h('h1', {}, index.report.model.name),
    h('p', {class: 'soft'}, `${integer(index.heads.length)} heads on ` +
      `${integer(index.tokens)} tokens in ${integer(index.sequences)} ` +
      `sequences${texts.length > 0 ? ` of ${texts.join(', ')}` : ''}; maps ` +
      `of ${integer(index.kept)} of them are kept. ` +
      (profiled === undefined ? '' : 'Roles and intervals are of ' +
        `${integer(profiled)} tokens.`)));
}

function idInAddress(): string {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return '';
  }
}

class Page {
  private readonly files = new HeadFiles();
  private readonly panel = h('div', {class: 'panel', id: 'card'});
  private readonly status = h('p', {class: 'visually-hidden', role: 'status'});
  private readonly list: HeadList;
  private readonly byId: Map<string, Entry>;
  private wanted = '';

  constructor(private readonly index: Index, private readonly report: Report) {
    this.byId = new Map(index.heads.map((entry) => [entry.id, entry]));
    this.list = new HeadList(index, (entry) => this.go(entry));
    addEventListener('hashchange', () => this.show(idInAddress()));
    addEventListener('keydown', (event) => this.key(event));
  }

  elements(): Node[] {
    return [navigation(this.report),
      h('main', {class: 'atlas'}, facts(this.index),
        h('div', {class: 'atlas-columns'}, this.list.element,
          h('div', {}, this.status, this.panel)))];
  }

  start(): void {
    const first = this.byId.get(idInAddress()) ?? this.index.heads[0];
    if (first !== undefined) this.show(first.id);
  }

  private go(entry: Entry): void {
    history.replaceState(null, '', '#' + encodeURIComponent(entry.id));
    this.show(entry.id);
  }

  private show(id: string): void {
    const entry = this.byId.get(id);
    if (entry === undefined || id === this.wanted) return;
    this.wanted = id;
    document.title = `${id} · ${this.report.model.name} · Headwise atlas`;
    this.list.select(id);
    this.files.of(entry).then((file) => {
      if (this.wanted !== id) return; // another head was chosen meanwhile
      this.panel.replaceChildren(card(entry, file, this.index, this.report));
      this.status.textContent = `Head ${id}`;
    }, (error) => {
      if (this.wanted !== id) return;
      this.panel.replaceChildren(h('p', {class: 'absent'}, String(error)));
    });
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey ||
        /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    if (event.key === '/') {
      event.preventDefault();
      this.list.focusSearch();
    } else if (event.key === 'j') {
      this.list.step(1);
    } else if (event.key === 'k') {
      this.list.step(-1);
    }
  }
}

const place = document.getElementById('page');
loadIndex().then((index) => {
  if (index.format !== 'headwise.atlas/1') {
    throw new Error(`expected a headwise.atlas/1; found ${index.format}`);
  }
  const {report} = index;
  report.heads = index.heads as unknown as Head[]; // for spans of all heads
  learnKinds(defined(report));
  const page = new Page(index, report);
  place?.replaceChildren(...page.elements());
  page.start();
}).catch((error: unknown) => {
  place?.replaceChildren(h('main', {}, h('h1', {}, 'This atlas is broken'),
    h('p', {}, String(error))));
});
