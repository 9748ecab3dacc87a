import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attachCell, ranksCell, shapeOf, trainingCell } from '../src/cells';
import { IWorker } from '../src/protocol';
import { cluster, rank } from './samples';

const worker = (name: string, ranks: string[], free: number | null): IWorker => ({
  key: name,
  name,
  address: '',
  facts: '',
  offers: '',
  free,
  ranks
});

test('without a cluster the settings decide', () => {
  assert.equal(trainingCell(null, {}, { nodes: 2, devices: 4 }), '%%gpulayer --nodes 2 --devices 4\n');
  assert.equal(ranksCell(null, null), '%%ranks\n');
});

test('a cluster that any notebook can use is named, with all that it offers', () => {
  const open = cluster('panel', [], { kind: 'open', workers: [worker('a', [], 2), worker('b', ['panel/b/0'], 1)] });
  assert.deepEqual(shapeOf(open, {}), { nodes: 2, devices: 2 });
  assert.equal(trainingCell(open, {}, { nodes: 1, devices: 1 }), '%%gpulayer --target panel --nodes 2 --devices 2\n');
  assert.equal(ranksCell(open, rank(3)), '%%ranks 3 --target panel\n');
});

test('unequal workers give each node what the smallest has', () => {
  const open = cluster('lab', [], { kind: 'open', workers: [worker('a', [], 4), worker('b', [], 2), worker('c', [], 0)] });
  assert.deepEqual(shapeOf(open, {}), { nodes: 2, devices: 2 });
});

test('a kernel’s own cluster keeps the shape of its last run', () => {
  const own = cluster('local-1', [0, 1, 2, 3]);
  const ranks = Object.fromEntries([0, 1, 2, 3].map(at => [`local-1/a/${at}`, rank(at, { node: at >> 1 })]));
  assert.equal(trainingCell(own, ranks, { nodes: 1, devices: 1 }), '%%gpulayer --nodes 2 --devices 2\n');
  assert.deepEqual(shapeOf(own, {}), { nodes: 1, devices: 4 });
});

test('a cell that attaches names the run', () => {
  assert.equal(attachCell('20260131-142305-3f2a'), '%gpulayer attach 20260131-142305-3f2a');
});
