// An ONNX file beside what Headwise dumped (npm's onnxruntime-node):
//   node export_onnx.mjs FILE DUMP NAME
// DUMP: safetensors with input_ids and NAME ("logits" or "final"). Prints the
// largest difference and the largest number of ours as JSON.
import fs from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';

const [file, dump, name] = process.argv.slice(2);
// Packages of the folder where it is called, wherever this script lies.
const require = createRequire(path.join(process.cwd(), 'package.json'));
const ort = require('onnxruntime-node');

const bytes = fs.readFileSync(dump);
const head = Number(bytes.readBigUInt64LE(0));
const header = JSON.parse(bytes.subarray(8, 8 + head).toString());
function stored(which, Kind) {
  const [begin, end] = header[which].data_offsets;
  const copy = Uint8Array.from(bytes.subarray(8 + head + begin, 8 + head + end));
  return new Kind(copy.buffer);
}
const shape = header.input_ids.shape;
const long = (values) =>
    new ort.Tensor('int64', BigInt64Array.from(values, BigInt), shape);
const session = await ort.InferenceSession.create(
    path.resolve(file), {intraOpNumThreads: 1});
const feeds = {input_ids: long(stored('input_ids', Int32Array))};
if (session.inputNames.includes('attention_mask')) {
  feeds.attention_mask = long(stored('attention_mask', Int32Array));
}
const result = (await session.run(feeds))[session.outputNames[0]];
const ours = stored(name, Float32Array);
let difference = result.data.length === ours.length ? 0 : Infinity;
let largest = 0;
for (let i = 0; i < ours.length; ++i) {
  difference = Math.max(difference, Math.abs(ours[i] - result.data[i]));
  largest = Math.max(largest, Math.abs(ours[i]));
}
console.log(JSON.stringify({difference, largest, shape: result.dims}));
