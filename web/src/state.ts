// The head that is shown, and who wants to know when it changes. It is part
// of the address (#head-5.1), so that a link leads to a head.
import type {Head, Report} from './report';

// The fragment that leads to a head's card: "#head-5.1", "#head-cross:2.3".
export function addressOf(id: string): string {
  return '#head-' + encodeURIComponent(id).replace(/%3A/g, ':');
}

function idInAddress(): string | undefined {
  const id = /^#head-(.+)$/.exec(location.hash)?.[1];
  try {
    return id === undefined ? undefined : decodeURIComponent(id);
  } catch {
    return undefined; // typed by hand, and no encoding of anything
  }
}

export class Selection {
  private readonly listeners: ((head: Head) => void)[] = [];
  private readonly glances: ((head: Head, mark: Element) => void)[] = [];
  private readonly byId: Map<string, Head>;
  private remembering: ReturnType<typeof setTimeout> | undefined;
  current: Head;

  constructor(readonly report: Report) {
    this.byId = new Map(report.heads.map((head) => [head.id, head]));
    const start = this.fromAddress() ?? this.mostTelling();
    if (start === undefined) throw new Error('a report without heads');
    this.current = start;
    addEventListener('hashchange', () => {
      clearTimeout(this.remembering);
      const head = this.fromAddress();
      if (head !== undefined) this.change(head);
    });
  }

  private fromAddress(): Head | undefined {
    return this.byId.get(idInAddress() ?? '');
  }

  // The reader begins with a head that has something to show.
  private mostTelling(): Head | undefined {
    const worth = (head: Head): number => {
      const role = head.roles[0];
      if (role === undefined || role.name === 'no role') return -1;
      return role.score - (/^(first|broad|local)/.test(role.name) ? 1 : 0) +
        (role.name === 'induction' ? 1 : 0);
    };
    return [...this.report.heads].sort((a, b) => worth(b) - worth(a))[0];
  }

  private change(head: Head): void {
    if (head === this.current) return;
    this.current = head;
    for (const tell of this.listeners) tell(head);
  }

  head(id: string): Head | undefined {
    return this.byId.get(id);
  }

  // Chosen beside its card. The address follows once the reader rests:
  // browsers refuse to change it at the rate of a held arrow key.
  select(id: string): void {
    const head = this.byId.get(id);
    if (head === undefined || head === this.current) return;
    this.change(head);
    clearTimeout(this.remembering);
    this.remembering = setTimeout(
      () => history.replaceState(null, '', addressOf(id)), 250);
  }

  // Chosen by a mark in a drawing far from the card. The reader stays there,
  // though a card above may become longer or shorter, and the address stays
  // too, so that opening the card is a step that Back undoes.
  glance(id: string, mark: Element): void {
    const head = this.byId.get(id);
    if (head === undefined) return;
    const before = mark.getBoundingClientRect().top;
    this.change(head);
    scrollBy({top: mark.getBoundingClientRect().top - before,
              behavior: 'instant'});
    for (const tell of this.glances) tell(head, mark);
  }

  // Calls now and at every change.
  follow(tell: (head: Head) => void): void {
    this.listeners.push(tell);
    tell(this.current);
  }

  // Calls at every glance.
  onGlance(tell: (head: Head, mark: Element) => void): void {
    this.glances.push(tell);
  }
}
