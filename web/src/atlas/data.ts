// An atlas as the page reads it: scripts beside it call these two functions,
// since a page from disk may load scripts and no other files. What writes them:
// src/headwise/report/atlas_page.cc.
import {defined} from '../defined';
import type {Head, HeadImportance, Report, Share} from '../report';

export interface Column {
  name: string;
  words: string;
}

// A head as the list knows it.
export interface Entry {
  id: string;
  file: string;
  roles: string[];
  values: (number | null)[]; // one a column
  importance?: HeadImportance;
}

export interface Index {
  format: string;
  report: Report; // without heads
  sequences: number;
  tokens: number;
  kept: number;
  intervals: number;
  keys: number;
  least: number;
  columns: Column[];
  heads: Entry[];
}

// A sequence with the largest attention of each query, in thousandths.
export interface Sequence {
  number: number;
  interval: number;
  strength: number;
  tokens: string[];
  places: number[]; // query · tokens + key
  shares: number[];
}

export interface Reading {
  token: string;
  top: {token: string; logit: number}[];
}

export interface HeadFile {
  head: Head;
  metrics: (number | null)[];
  strengths: number[];
  mean_strength: number;
  query_tokens: Share[];
  key_tokens: Share[];
  sequences: Sequence[];
  matches?: Reading[];
}

declare global {
  interface Window {
    headwiseAtlas?: (index: Index) => void;
    headwiseHead?: (file: HeadFile) => void;
  }
}

// The one argument that a script beside the page calls `name` with.
function loadScript<T>(path: string,
                       name: 'headwiseAtlas' | 'headwiseHead'): Promise<T> {
  return new Promise((done, fail) => {
    let given: T | undefined;
    (window as unknown as Record<string, (value: T) => void>)[name] =
      (value) => { given = value; };
    const script = document.createElement('script');
    script.src = path;
    const end = (): void => {
      script.remove();
      if (given === undefined) fail(new Error(`${path} cannot be read`));
      else done(given);
    };
    script.addEventListener('load', end);
    script.addEventListener('error', end);
    document.head.append(script);
  });
}

export function loadIndex(): Promise<Index> {
  return loadScript('atlas.js', 'headwiseAtlas');
}

// One after another, so that a call belongs to its file; some are remembered.
export class HeadFiles {
  private static readonly most = 24;
  private readonly known = new Map<string, HeadFile>();
  private last: Promise<unknown> = Promise.resolve();

  of(entry: Entry): Promise<HeadFile> {
    const next = this.last.then(async () => {
      const known = this.known.get(entry.file);
      if (known !== undefined) return known;
      const file = await loadScript<HeadFile>(`heads/${entry.file}.js`,
                                              'headwiseHead');
      defined({heads: [file.head]} as unknown as Report);
      this.known.set(entry.file, file);
      for (const oldest of this.known.keys()) {
        if (this.known.size <= HeadFiles.most) break;
        this.known.delete(oldest);
      }
      return file;
    });
    this.last = next.catch(() => undefined);
    return next;
  }
}
