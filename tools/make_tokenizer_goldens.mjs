// Makes tests/conformance/tokenizer: small tokenizers of every kind, and what
// Hugging Face's own library makes of a list of awkward texts with them.
//
//   npm install tokenizers@0.23.2   (anywhere; set NODE_PATH to its folder)
//   apt-get install sentencepiece   (spm_train makes the unigram model)
//   node tools/make_tokenizer_goldens.mjs
//
// The vocabularies are trained here, on the texts below, so that all of it is
// ours. With --hash TOKENIZER.json it instead prints one number for all ids
// and spans of a given tokenizer: real vocabularies are compared by it.
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import {createRequire} from 'node:module';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

const require = createRequire(import.meta.url);
const modules = process.env.NODE_PATH ?? 'node_modules';
const {Tokenizer} = require(path.resolve(modules, 'tokenizers'));
const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const folder = path.join(root, 'tests/conformance/tokenizer');

// --- Texts -----------------------------------------------------------------

const corpus = `
The quick brown fox jumps over the lazy dog. The dog sleeps; the fox runs on.
Attention heads look at tokens: some look at the previous token, some at the
first, some at nothing much. It's what we've seen, and they're not wrong.
She'll say that 12 of 34 heads don't matter, and that 1999 was 25 years ago.
Der schnelle braune Fuchs springt über den faulen Hund. Größe, Übung, Äpfel.
Le café de l'été où naïve Noël déjà reçu. El niño comió piñas en España.
Быстрая коричневая лиса прыгает через ленивую собаку. Привет, мир!
Η γρήγορη αλεπού. 日本語の文章を書きます。東京は大きい都市です。
你好，世界！注意力机制很重要。한국어 문장도 있습니다. 서울은 큰 도시입니다.
العربية لغة جميلة جدا. مرحبا بالعالم. שלום עולם. नमस्ते दुनिया। สวัสดีชาวโลก
for (int i = 0; i < 10; ++i) { total += weights[i] * values[i]; }
    return total;  // done
😀 😃 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ x² + y² = z², ½ of ⅓, № 5, 100 %, £3.50, €20
`.repeat(3);

const plainTexts = [
  '', ' ', '  ', '\n', '\t\n\r\n', 'Hello world', ' Hello  world ', 'a', 'é',
  "don't I'll we've they're I'M IT'S", 'naïve café résumé',
  'cafe\u0301 n\u0303 a\u0323\u0307 \u1e0b\u0323', '日本語のテキスト、東京。',
  '你好，世界！123', 'العربية لغة جميلة ١٢٣', 'שלום עולם', 'مُحَمَّد',
  '한국어 텍스트 \u1112\u1161\u11ab', '😀😃 👨‍👩‍👧‍👦 🇩🇪 👍🏽', 'x²+y²=z² ½ ⅷ Ⅷ ①②',
  'ﬁ ﬂ ﬃ Ａｂｃ １２３', '\u0000\u0001\u001b\u007f\u0085\u00a0\u00ad',
  'a\u200bb\u200cc\u200dd\ufeffe\u180ef\u2028g\u2029h\u3000i',
  'İstanbul ıI ẞß ΑΣ ΟΔΥΣΣΕΥΣ', '[CLS] hi [SEP] [MASK] [UNK][PAD]',
  '<|endoftext|> a <|endoftext|>b', '<s> </s> <unk> <mask>  <pad>',
  '1234567890 3.14 1,000,000', 'foo_bar __init__ a-b-c',
  '    indented\n\tcode()\n\n\n  more', 'http://example.com/?q=a&b=c#d',
  'e\u0301\u0301\u0301\u0301', '\u0301abc', 'Zalgo t\u0336\u0322o\u0334\u031b',
  'नमस्ते दुनिया', 'ไทย ภาษา', 'ﷺ ﷽', '\ud7ff\ue000\uffff\u{10ffff}',
  '\u2126 \u212a \u212b', '\u1100\u1161\u11a8 \uac00\u11a8', "''''",
  "'s 's'S '\u017f", 'don\u2019t', '#$%^&*()', '\u0f71\u0f72\u0f74',
  'x\u0300\u0301y', '\u2581a \u2581 b', '\u0120hello \u010a', '<0x0A> <0x41>',
  'A'.repeat(150), 'ab '.repeat(60), '日'.repeat(80),
  ' '.repeat(50) + 'x' + '\n'.repeat(20), 'the quick brown fox '.repeat(40),
  '<|im_start|>user\nHi<|im_end|>', 'MiXeD CaSe ÀÉÎÕÜ', 'ǅ ǆ Ǆ', '½¾¼',
  'a\u0000b', '\r\r\n', ' \u00a0 ', 'tab\tseparated\tvalues', '…—–“”‘’«»',
];

// Random mixtures, always the same ones.
const pools = [
  [0x20, 0x7e], [0x20, 0x7e], [0xa0, 0x24f], [0x300, 0x36f], [0x370, 0x3ff],
  [0x400, 0x4ff], [0x5d0, 0x5ea], [0x620, 0x6d3], [0x905, 0x939],
  [0xe01, 0xe3a], [0x1100, 0x11ff], [0x1e00, 0x1fff], [0x2000, 0x2064],
  [0x20a0, 0x20b9], [0x2100, 0x218b], [0x2460, 0x24ff], [0x3000, 0x30ff],
  [0x4e00, 0x4eff], [0xac00, 0xacff], [0xf900, 0xfa6d], [0xfb00, 0xfb06],
  [0xfe00, 0xfe0f], [0xff00, 0xffef], [0x1d400, 0x1d454], [0x1f300, 0x1f6c5],
  [0x0, 0x1f], [0x1f110, 0x1f12e],
];
const words = corpus.split(/\s+/u).filter((word) => word);
const marks = [
  ' ', '\t', '\n', '\r\n', '\u00a0', "'", '-', '\u2581', '1', '23', '4567',
  '[MASK]', '[SEP]', '<s>', '</s>', '<mask>', ' <mask> ', '<unk>',
  '<|endoftext|>', '<|im_start|>', '<|im_end|>',
];
let seed = 12345;
function random(below) {
  seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
  return (seed >>> 8) % below;
}
function randomText() {
  let text = '';
  for (let i = random(9) + 1; i > 0; --i) {
    const kind = random(20);
    if (kind < 9) {
      text += words[random(words.length)] + ['', ' ', ' ', '  ', '\n'][random(5)];
    } else if (kind < 12) {
      text += marks[random(marks.length)];
    } else {
      const [low, high] = pools[random(pools.length)];
      for (let j = random(4) + 1; j > 0; --j) {
        text += String.fromCodePoint(low + random(high - low + 1));
      }
    }
  }
  return text;
}
const texts = [...plainTexts];
while (texts.length < 240) texts.push(randomText());

// --- Vocabularies ----------------------------------------------------------

// Byte-pair merges of words given as arrays of symbols with counts.
function learnMerges(counted, count) {
  const merges = [];
  while (merges.length < count) {
    const pairs = new Map();
    for (const [symbols, n] of counted) {
      for (let i = 0; i + 1 < symbols.length; ++i) {
        const key = symbols[i] + ' ' + symbols[i + 1];
        pairs.set(key, (pairs.get(key) ?? 0) + n);
      }
    }
    let best = null;
    for (const [key, n] of pairs) {
      if (best === null || n > pairs.get(best) ||
          (n === pairs.get(best) && key < best)) best = key;
    }
    if (best === null || pairs.get(best) < 2) break;
    merges.push(best);
    const [left, right] = best.split(' ');
    for (const entry of counted) {
      const joined = [];
      for (const symbol of entry[0]) {
        if (symbol === right && joined.at(-1) === left) {
          joined[joined.length - 1] = left + right;
        } else {
          joined.push(symbol);
        }
      }
      entry[0] = joined;
    }
  }
  return merges;
}

function countWords(list, split) {
  const counts = new Map();
  for (const word of list) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].map(([word, n]) => [split(word), n]);
}

function byteCharacters() {
  const table = [];
  let next = 256;
  for (let byte = 0; byte < 256; ++byte) {
    const kept = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
        byte >= 174;
    table.push(String.fromCodePoint(kept ? byte : next++));
  }
  return table;
}

function numbered(tokens) {
  return Object.fromEntries([...new Set(tokens)].map((token, i) => [token, i]));
}

function byteLevelModel(before, options = {}) {
  const table = byteCharacters();
  const rule = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+/gu;
  const merges = learnMerges(
      countWords(corpus.match(rule),
                 (word) => [...Buffer.from(word)].map((byte) => table[byte])),
      400);
  return {
    type: 'BPE', dropout: null, unk_token: null,
    continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false,
    byte_fallback: false, ignore_merges: false,
    vocab: numbered([...before, ...table,
                     ...merges.map((merge) => merge.replace(' ', ''))]),
    merges, ...options,
  };
}

function fallbackModel() {
  const pieces = ('\u2581' + corpus.replaceAll(' ', '\u2581'))
      .split(/(?=\u2581)/u);
  const merges = learnMerges(countWords(pieces, (word) => [...word]), 400);
  const bytes = Array.from({length: 256}, (_, byte) =>
      `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
  const letters = [...new Set(corpus)].filter(
      (c) => c > ' ' && c.codePointAt(0) < 0x250);
  const usable = [];
  const known = new Set([...letters, '\u2581']);
  for (const merge of merges) {
    const [left, right] = merge.split(' ');
    if (!known.has(left) || !known.has(right)) continue;
    known.add(left + right);
    usable.push(merge);
  }
  return {
    type: 'BPE', dropout: null, unk_token: '<unk>',
    continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: true,
    byte_fallback: true, ignore_merges: false,
    vocab: numbered(['<unk>', '<s>', '</s>', ...bytes, '\u2581', ...letters,
                     ...usable.map((merge) => merge.replace(' ', ''))]),
    merges: usable,
  };
}

function wordPieceModel(lowercase) {
  const text = lowercase ?
      corpus.toLowerCase().normalize('NFD').replace(/\p{Mn}/gu, '') : corpus;
  const counts = new Map();
  for (const word of text.match(/[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu)) {
    const letters = [...word];
    for (let i = 0; i < letters.length; ++i) {
      for (let j = i + 1; j <= Math.min(letters.length, i + 6); ++j) {
        const piece = (i > 0 ? '##' : '') + letters.slice(i, j).join('');
        counts.set(piece, (counts.get(piece) ?? 0) + 1);
      }
    }
  }
  const pieces = [...counts].filter(
      ([piece, n]) => n >= 9 || [...piece.replace('##', '')].length === 1);
  pieces.sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  return {
    type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##',
    max_input_chars_per_word: 100,
    vocab: numbered(['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]',
                     ...pieces.map(([piece]) => piece)]),
  };
}

// The fields of a protocol buffer, as [number, value] pairs.
function protoFields(bytes) {
  const fields = [];
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 1;; shift *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const number = tag >>> 3;
    if ((tag & 7) === 0) {
      fields.push([number, varint()]);
    } else if ((tag & 7) === 5) {
      fields.push([number, bytes.readFloatLE(at)]);
      at += 4;
    } else {
      const length = varint();
      fields.push([number, bytes.subarray(at, at + length)]);
      at += length;
    }
  }
  return fields;
}

// Trains a unigram model whose normaliser folds a few dozen characters.
function sentencePiece() {
  const tmp = fs.mkdtempSync(path.join(os.tmpdir(), 'goldens-'));
  const rules = [];
  const hex = (text) => [...text].map(
      (c) => c.codePointAt(0).toString(16).toUpperCase()).join(' ');
  for (let c = 0xff01; c <= 0xff5e; ++c) {
    rules.push([String.fromCodePoint(c), String.fromCodePoint(c - 0xfee0)]);
  }
  rules.push(['ﬁ', 'fi'], ['ﬂ', 'fl'], ['ﬃ', 'ffi'], ['①', '1'], ['½', '1⁄2'],
             ['\u00a0', ' '], ['\u3000', ' '], ['\u2028', ' '], ['\t', ' '],
             ['\n', ' '], ['\r', ' '], ['e\u0301', 'é'], ['n\u0303', 'ñ'],
             ['\u200b', ''], ['\ufeff', ''], ['\u0001', ''], ['…', '...']);
  fs.writeFileSync(path.join(tmp, 'rules.tsv'), rules.map(
      ([from, to]) => `${hex(from)}\t${hex(to)}\n`).join(''));
  fs.writeFileSync(path.join(tmp, 'corpus.txt'), corpus);
  execFileSync('spm_train', [
    `--input=${tmp}/corpus.txt`, `--model_prefix=${tmp}/m`,
    '--model_type=unigram', '--vocab_size=420', '--hard_vocab_limit=false',
    '--character_coverage=0.98', `--normalization_rule_tsv=${tmp}/rules.tsv`,
    '--num_threads=1',
  ], {stdio: 'ignore'});
  const bytes = fs.readFileSync(path.join(tmp, 'm.model'));
  fs.rmSync(tmp, {recursive: true});
  const pieces = [];
  let charsmap = '';
  for (const [number, value] of protoFields(bytes)) {
    if (number === 1) {
      const piece = Object.fromEntries(protoFields(value));
      pieces.push([piece[1].toString('utf8'), piece[2]]);
    } else if (number === 3) {
      charsmap = Object.fromEntries(protoFields(value))[2].toString('base64');
    }
  }
  return {bytes, pieces, charsmap};
}

// --- Tokenizers ------------------------------------------------------------

function added(model, contents, flags = {}) {
  return contents.map((content) => ({
    id: model.vocab[content], content, single_word: false,
    lstrip: content === '<mask>', rstrip: false, normalized: false,
    special: true, ...flags,
  }));
}
function special(id, type = 0) {
  return {SpecialToken: {id, type_id: type}};
}
function sequence(id, type = 0) {
  return {Sequence: {id, type_id: type}};
}
function template(model, single, pair, tokens) {
  return {
    type: 'TemplateProcessing', single, pair,
    special_tokens: Object.fromEntries(tokens.map((token) => [
      token, {id: token, ids: [model.vocab[token]], tokens: [token]}])),
  };
}
function byteLevel(options) {
  return {type: 'ByteLevel', add_prefix_space: false, trim_offsets: true,
          use_regex: true, ...options};
}
function split(expression) {
  return {type: 'Split', pattern: {Regex: expression}, behavior: 'Isolated',
          invert: false};
}
function file(parts) {
  return {version: '1.0', truncation: null, padding: null, added_tokens: [],
          normalizer: null, pre_tokenizer: null, post_processor: null,
          decoder: null, ...parts};
}

function gpt2() {
  const model = byteLevelModel(['<|endoftext|>']);
  return file({
    model, added_tokens: added(model, ['<|endoftext|>']),
    pre_tokenizer: byteLevel(), decoder: byteLevel(),
    post_processor: byteLevel({trim_offsets: false}),
  });
}

function llama3() {
  const model = byteLevelModel(['<|begin_of_text|>', '<|im_start|>'],
                               {ignore_merges: true});
  return file({
    model, added_tokens: added(model, ['<|begin_of_text|>', '<|im_start|>']),
    pre_tokenizer: {type: 'Sequence', pretokenizers: [
      split("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" +
            '\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|' +
            '\\s+(?!\\S)|\\s+'),
      byteLevel({use_regex: false}),
    ]},
    post_processor: {type: 'Sequence', processors: [
      byteLevel(),
      template(model, [special('<|begin_of_text|>'), sequence('A')],
               [special('<|begin_of_text|>'), sequence('A'),
                special('<|begin_of_text|>', 1), sequence('B', 1)],
               ['<|begin_of_text|>']),
    ]},
    decoder: byteLevel(),
  });
}

function qwen2() {
  const model = byteLevelModel(['<|endoftext|>', '<|im_start|>', '<|im_end|>']);
  return file({
    model,
    added_tokens: added(model, ['<|endoftext|>', '<|im_start|>', '<|im_end|>']),
    normalizer: {type: 'NFC'},
    pre_tokenizer: {type: 'Sequence', pretokenizers: [
      split("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" +
            '\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|' +
            '\\s+(?!\\S)|\\s+'),
      byteLevel({use_regex: false, trim_offsets: false}),
    ]},
    post_processor: byteLevel({trim_offsets: false, use_regex: false}),
    decoder: byteLevel({trim_offsets: false, use_regex: false}),
  });
}

function roberta() {
  const names = ['<s>', '<pad>', '</s>', '<unk>', '<mask>'];
  const model = byteLevelModel(names);
  return file({
    model, added_tokens: added(model, names),
    pre_tokenizer: byteLevel({add_prefix_space: true}), decoder: byteLevel(),
    post_processor: {type: 'RobertaProcessing', sep: ['</s>', model.vocab['</s>']],
                     cls: ['<s>', model.vocab['<s>']], trim_offsets: true,
                     add_prefix_space: true},
  });
}

function bert(lowercase) {
  const model = wordPieceModel(lowercase);
  return file({
    model,
    added_tokens: added(model, ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']),
    normalizer: {type: 'BertNormalizer', clean_text: true,
                 handle_chinese_chars: true, strip_accents: null, lowercase},
    pre_tokenizer: {type: 'BertPreTokenizer'},
    post_processor: template(
        model, [special('[CLS]'), sequence('A'), special('[SEP]')],
        [special('[CLS]'), sequence('A'), special('[SEP]'), sequence('B', 1),
         special('[SEP]', 1)], ['[CLS]', '[SEP]']),
    decoder: {type: 'WordPiece', prefix: '##', cleanup: true},
  });
}

function llama2() {
  const model = fallbackModel();
  return file({
    model, added_tokens: added(model, ['<unk>', '<s>', '</s>']),
    normalizer: {type: 'Sequence', normalizers: [
      {type: 'Prepend', prepend: '\u2581'},
      {type: 'Replace', pattern: {String: ' '}, content: '\u2581'},
    ]},
    post_processor: template(
        model, [special('<s>'), sequence('A')],
        [special('<s>'), sequence('A'), special('<s>', 1), sequence('B', 1)],
        ['<s>']),
    decoder: {type: 'Sequence', decoders: [
      {type: 'Replace', pattern: {String: '\u2581'}, content: ' '},
      {type: 'ByteFallback'}, {type: 'Fuse'},
      {type: 'Strip', content: ' ', start: 1, stop: 0},
    ]},
  });
}

function unigram(spm) {
  const metaspace = {type: 'Metaspace', replacement: '\u2581',
                     prepend_scheme: 'always', split: true};
  const model = {type: 'Unigram', unk_id: 0, byte_fallback: false,
                 vocab: spm.pieces};
  const ids = {vocab: numbered(spm.pieces.map(([piece]) => piece))};
  return file({
    model, added_tokens: added(ids, ['<unk>', '<s>', '</s>']),
    normalizer: {type: 'Sequence', normalizers: [
      {type: 'Precompiled', precompiled_charsmap: spm.charsmap},
      {type: 'Replace', pattern: {Regex: ' {2,}'}, content: ' '},
    ]},
    pre_tokenizer: metaspace, decoder: metaspace,
    post_processor: template(ids, [sequence('A'), special('</s>')],
                             [sequence('A'), special('</s>'), sequence('B'),
                              special('</s>')], ['</s>']),
  });
}

// What the others leave out: every remaining part, in one long row.
function parts() {
  const model = {
    type: 'BPE', dropout: null, unk_token: '<unk>',
    continuing_subword_prefix: null, end_of_word_suffix: '</w>',
    fuse_unk: false, byte_fallback: false, ignore_merges: false,
    vocab: numbered(['<unk>', 'tok', 't', 'h', 'e', 'e</w>', 'th', 'the</w>',
                     'o', 'n', 'n</w>', 'on</w>', '1</w>', '2</w>', '.</w>']),
    merges: ['t h', 'th e</w>', 'o n</w>'],
  };
  return file({
    model,
    added_tokens: [
      ...added(model, ['<unk>']),
      ...added(model, ['tok'], {special: false, single_word: true,
                                rstrip: true, normalized: true}),
    ],
    normalizer: {type: 'Sequence', normalizers: [
      {type: 'Strip', strip_left: true, strip_right: true}, {type: 'NFKD'},
      {type: 'StripAccents'}, {type: 'Lowercase'},
      {type: 'Replace', pattern: {Regex: '[aeiou]+h'}, content: 'eh'},
    ]},
    pre_tokenizer: {type: 'Sequence', pretokenizers: [
      {type: 'WhitespaceSplit'},
      {type: 'Punctuation', behavior: 'MergedWithPrevious'},
      {type: 'Digits', individual_digits: true},
      {type: 'Split', pattern: {String: 'qu'}, behavior: 'MergedWithNext',
       invert: false},
      {type: 'Split', pattern: {Regex: '(?<=[a-z])(?=[^a-z])'},
       behavior: 'Isolated', invert: false},
      {type: 'Whitespace'},
    ]},
    decoder: {type: 'BPEDecoder', suffix: '</w>'},
  });
}

// --- Goldens ---------------------------------------------------------------

// [ids, spans as begin, end, begin, …, decoded, decoded with special tokens].
// Offsets count characters there and bytes here.
async function golden(tokenizer, text) {
  const bytes = [0];
  for (const character of text) {
    bytes.push(bytes.at(-1) + Buffer.byteLength(character));
  }
  const encoding = await tokenizer.encode(text);
  const ids = encoding.getIds();
  return [ids, encoding.getOffsets().flat().map((offset) => bytes[offset]),
          await tokenizer.decode(ids, true), await tokenizer.decode(ids, false)];
}

async function goldens(json) {
  const tokenizer = Tokenizer.fromString(
      JSON.stringify({...json, truncation: null, padding: null}));
  const results = [];
  for (const text of texts) results.push(await golden(tokenizer, text));
  const pair = await tokenizer.encode('The fox', 'at 12.');
  return {pair: [pair.getIds(), pair.getTypeIds()], cases: results};
}

function write(name, value) {
  fs.writeFileSync(path.join(folder, name), value);
}
function lines(list) {
  return '[\n' + list.map((item) => JSON.stringify(item)).join(',\n') + '\n]';
}
function goldenFile({pair, cases}) {
  return `{"pair": ${JSON.stringify(pair)}, "cases": ${lines(cases)}}\n`;
}

// FNV-1a over the ids and the spans, 4 bytes little-endian each.
function hash(cases) {
  let value = 0xcbf29ce484222325n;
  for (const [ids, spans] of cases) {
    const bytes = Buffer.from(new Int32Array([...ids, ...spans]).buffer);
    for (const byte of bytes) {
      value = BigInt.asUintN(64, (value ^ BigInt(byte)) * 0x100000001b3n);
    }
  }
  return value.toString(16).padStart(16, '0');
}

if (process.argv[2] === '--hash') {
  const json = JSON.parse(fs.readFileSync(process.argv[3]));
  console.log(hash((await goldens(json)).cases));
} else {
  fs.mkdirSync(folder, {recursive: true});
  const spm = sentencePiece();
  write('unigram.model', spm.bytes);
  write('texts.json', lines(texts) + '\n');
  const kinds = {
    'gpt2': gpt2(), 'llama3': llama3(), 'qwen2': qwen2(),
    'roberta': roberta(), 'bert-uncased': bert(true),
    'bert-cased': bert(false), 'llama2': llama2(), 'unigram': unigram(spm),
    'parts': parts(),
  };
  for (const [name, json] of Object.entries(kinds)) {
    write(`${name}.json`, JSON.stringify(json) + '\n');
    write(`${name}.golden.json`, goldenFile(await goldens(json)));
  }
}
