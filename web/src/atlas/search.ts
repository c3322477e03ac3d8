// Which heads a search is for, and in which order. Words that must all hold:
//   induction            a role, a class or the head's name has it
//   induction_score>.4   a metric (its beginning is enough), layer, head or
//                        effect; <, >, = with numbers
import type {Column, Entry} from './data';

export interface Found {
  heads: number[]; // places in Index.heads
  wrong: string[]; // words that no metric is called like
}

// A number of each head by its name.
export interface Numbers {
  name: string;
  words: string;
  of: (entry: Entry) => number | null;
}

export function numbersOf(columns: Column[], by: string | undefined):
    Numbers[] {
  const part = (id: string, at: number): number => Number(id.split('.')[at]);
  return [
    ...columns.map((column, i) => ({
      ...column, of: (entry: Entry) => entry.values[i] ?? null,
    })),
    ...(by === undefined ? [] : [{
      name: 'effect', words: `Change of the loss without it (${by})`,
      of: (entry: Entry) => entry.importance?.values[by]?.value ?? null,
    }]),
    {name: 'layer', words: 'Layer', of: (entry) => part(entry.id, 0)},
    {name: 'head', words: 'Head of its layer', of: (entry) => part(entry.id, 1)},
  ];
}

// What words are looked for in.
export function textsOf(heads: Entry[]): string[] {
  return heads.map((entry) => [entry.id,
    ...(entry.roles.length > 0 ? entry.roles : ['no role']),
    entry.importance?.class ?? ''].join('\n').toLowerCase());
}

type Test = (entry: Entry, text: string) => boolean;

function testOf(word: string, numbers: Numbers[]): Test | undefined {
  const compared = /^([a-z_.-]+)(<|>|=)(-?[\d.]+(?:e-?\d+)?)$/.exec(word);
  if (compared === null) return (_, text) => text.includes(word);
  const [, name = '', sign, digits] = compared;
  const known = numbers.find((one) => one.name === name) ??
    numbers.find((one) => one.name.startsWith(name));
  const limit = Number(digits);
  if (known === undefined || Number.isNaN(limit)) return undefined;
  return (entry) => {
    const value = known.of(entry);
    return value !== null && (sign === '<' ? value < limit
      : sign === '>' ? value > limit : value === limit);
  };
}

export function find(heads: Entry[], texts: string[], query: string,
                     role: string, numbers: Numbers[]): Found {
  const wrong: string[] = [];
  const tests: Test[] = [];
  // "−" as people type it.
  for (const word of query.toLowerCase().replace(/−/g, '-').split(/\s+/)) {
    if (word === '') continue;
    const test = testOf(word, numbers);
    if (test === undefined) wrong.push(word);
    else tests.push(test);
  }
  const found: number[] = [];
  heads.forEach((entry, i) => {
    if (role !== '' && !(role === 'no role' ? entry.roles.length === 0
      : entry.roles.includes(role))) return;
    if (tests.every((test) => test(entry, texts[i] ?? ''))) found.push(i);
  });
  return {heads: found, wrong};
}

// Largest first, or smallest; heads without the number come last.
export function sortBy(found: number[], heads: Entry[], numbers: Numbers,
                       rising: boolean): number[] {
  const values = new Map(found.map((i) => {
    const entry = heads[i];
    return [i, entry === undefined ? null : numbers.of(entry)];
  }));
  const last = rising ? Infinity : -Infinity;
  return [...found].sort((a, b) => {
    const x = values.get(a) ?? last;
    const y = values.get(b) ?? last;
    return (rising ? 1 : -1) * (x === y ? 0 : x < y ? -1 : 1) || a - b;
  });
}
