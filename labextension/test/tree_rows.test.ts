import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apply, IPicture, NOTHING } from '../src/picture';
import { clusterKey, isMany, MOST_ROWS, move, treeRows, workerKey } from '../src/tree_rows';
import { cluster, rank, whole } from './samples';

const CLUSTER = clusterKey('local');
const WORKER = workerKey('local', 'a');

function picture(ranks: number): IPicture {
  return apply(NOTHING, whole(...Array.from({ length: ranks }, (_, at) => rank(at))));
}

test('the rows are those one sees, with their levels', () => {
  assert.deepEqual(
    treeRows(picture(2), new Set()).map(row => [row.key, row.level, row.open]),
    [
      [CLUSTER, 1, true],
      [WORKER, 2, true],
      ['local/a/0', 3, null],
      ['local/a/1', 3, null]
    ]
  );
  assert.deepEqual(
    treeRows(picture(2), new Set([WORKER])).map(row => row.key),
    [CLUSTER, WORKER]
  );
  assert.deepEqual(
    treeRows(picture(2), new Set([CLUSTER])).map(row => row.key),
    [CLUSTER]
  );
});

test('a cluster of many ranks is one row: its ranks are a grid', () => {
  assert.equal(isMany(picture(MOST_ROWS), 'local'), false);
  assert.equal(isMany(picture(MOST_ROWS + 1), 'local'), true);
  assert.deepEqual(
    treeRows(picture(MOST_ROWS + 1), new Set()).map(row => row.key),
    [CLUSTER]
  );
});

test('a cluster without workers has nothing to unfold', () => {
  const empty = { ...NOTHING, clusters: [{ ...cluster('local', []), workers: [] }] };
  assert.deepEqual(
    treeRows(empty, new Set()).map(row => row.open),
    [null]
  );
});

test('arrows move as in every tree', () => {
  const rows = treeRows(picture(2), new Set());
  const to = (from: string | null, key: string) => move(rows, from, key);
  assert.deepEqual(to(null, 'ArrowDown'), { to: CLUSTER });
  assert.deepEqual(to(CLUSTER, 'ArrowDown'), { to: WORKER });
  assert.deepEqual(to('local/a/1', 'ArrowDown'), { to: 'local/a/1' });
  assert.deepEqual(to(CLUSTER, 'ArrowUp'), { to: CLUSTER });
  assert.deepEqual(to(CLUSTER, 'End'), { to: 'local/a/1' });
  assert.deepEqual(to('local/a/1', 'Home'), { to: CLUSTER });
  assert.deepEqual(to('local/a/1', 'ArrowLeft'), { to: WORKER });
  assert.deepEqual(to(WORKER, 'ArrowLeft'), { to: WORKER, fold: true });
  assert.deepEqual(to(WORKER, 'ArrowRight'), { to: 'local/a/0' });
  assert.equal(to(WORKER, 'x'), null);
  assert.deepEqual(move(treeRows(picture(2), new Set([WORKER])), WORKER, 'ArrowRight'), { to: WORKER, fold: false });
  assert.equal(move([], null, 'ArrowDown'), null);
});
