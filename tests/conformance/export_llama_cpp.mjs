// Greedy tokens of a GGUF file by llama.cpp (npm's node-llama-cpp):
//   node export_llama_cpp.mjs FILE TEXT IDS COUNT
// prints {"prompt": [ids of TEXT], "tokens": [COUNT ids that follow IDS]}.
// IDS are separated by commas; "" takes those of TEXT.
import {createRequire} from 'node:module';
import path from 'node:path';
import {pathToFileURL} from 'node:url';

const [file, text, given, count] = process.argv.slice(2);
// Packages of the folder where it is called, wherever this script lies.
const require = createRequire(path.join(process.cwd(), 'package.json'));
const {getLlama, LlamaLogLevel} = await import(
    pathToFileURL(require.resolve('node-llama-cpp')).href);

const llama = await getLlama(
    {gpu: false, build: 'never', logLevel: LlamaLogLevel.error});
const model = await llama.loadModel({modelPath: path.resolve(file)});
// One thread: on a busy machine several wait for each other.
const context = await model.createContext({contextSize: 256, threads: 1});
const sequence = context.getSequence();
const prompt = text === '' ? [] : Array.from(model.tokenize(text));
const start = given === '' ? prompt : given.split(',').map(Number);
const tokens = [];
for await (const token of sequence.evaluate(
    start, {temperature: 0, yieldEogToken: true})) {
  tokens.push(token);
  if (tokens.length >= Number(count)) break;
}
console.log(JSON.stringify({prompt, tokens}));
process.exit(0);
