import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apply, count, NOTHING, RATES } from '../src/picture';
import { rank, whole } from './samples';

test('a change touches only the rows that it names', () => {
  const before = apply(NOTHING, whole(rank(0), rank(1)));
  const after = apply(before, { type: 'changes', protocol: 1, ranks: { 'local/a/1': { step: 2 } } });
  assert.equal(after.ranks['local/a/0'], before.ranks['local/a/0']);
  assert.equal(after.ranks['local/a/1'].step, 2);
  assert.equal(before.ranks['local/a/1'].step, 1, 'the picture before is as it was');
  assert.equal(after.clusters, before.clusters);
});

test('a new rate goes to the end of those before, and the oldest leaves', () => {
  let picture = apply(NOTHING, whole(rank(0)));
  for (let at = 0; at < RATES + 5; at++) {
    picture = apply(picture, { type: 'changes', protocol: 1, ranks: { 'local/a/0': { rate: at } } });
  }
  const { rates } = picture.ranks['local/a/0'];
  assert.equal(rates.length, RATES);
  assert.deepEqual(rates.slice(-2), [RATES + 3, RATES + 4]);
});

test('a rank that is gone is gone, a new one comes whole', () => {
  const before = apply(NOTHING, whole(rank(0), rank(1)));
  const after = apply(before, { type: 'changes', protocol: 1, gone: ['local/a/1'], ranks: { 'local/a/2': rank(2) } });
  assert.deepEqual(Object.keys(after.ranks), ['local/a/0', 'local/a/2']);
  assert.deepEqual(after.ranks['local/a/2'].rates, [10]);
});

test('a run changes in part, or the list is replaced', () => {
  const before = apply(NOTHING, whole(rank(0)));
  const later = apply(before, { type: 'changes', protocol: 1, run_changes: { 'r-1': { step: 6 } } });
  assert.deepEqual([later.runs[0].step, later.runs[0].eta], [6, 9]);
  assert.deepEqual(apply(later, { type: 'changes', protocol: 1, runs: [] }).runs, []);
});

test('a whole picture keeps the objects of rows that are the same, so that they are not drawn again', () => {
  const before = apply(NOTHING, whole(rank(0), rank(1)));
  const after = apply(before, whole(rank(0), rank(1, { step: 9 })));
  assert.equal(after.ranks['local/a/0'], before.ranks['local/a/0']);
  assert.notEqual(after.ranks['local/a/1'], before.ranks['local/a/1']);
});

test('a rank that waits in a collective is at work', () => {
  const picture = apply(NOTHING, whole(rank(0), rank(1, { state: 'waiting' }), rank(2, { state: 'idle' })));
  assert.deepEqual(count(picture), { ranks: 3, running: 2 });
});
