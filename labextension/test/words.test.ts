import assert from 'node:assert/strict';
import { test } from 'node:test';
import { base, clock, memory, memoryOf, metric, polyline, rate, scale, share, short, whole } from '../src/words';

test('counts have a narrow space between thousands', () => {
  assert.deepEqual([0, 999, 1077, 1234567].map(whole), ['0', '999', '1\u202f077', '1\u202f234\u202f567']);
});

test('rates have three significant digits, unknown ones are a dash', () => {
  assert.deepEqual([null, 0, 0.8734, 41.23, 265.4, 5234].map(rate), ['–', '0', '0.873', '41.2', '265', '5\u202f230']);
});

test('metrics have three decimals, small ones an exponent, words stay', () => {
  assert.deepEqual([0.93212, 0.00042, 0, -3.5, 12345.6, 'nan', 'inf'].map(metric), [
    '0.932',
    '4.2e-4',
    '0.000',
    '-3.500',
    '12\u202f346',
    'NaN',
    'inf'
  ]);
});

test('times are clocks, days are said', () => {
  assert.deepEqual([0.2, 28, 83, 3723, 187860].map(clock), ['0:00', '0:28', '1:23', '1:02:03', '2 d 04:11']);
});

test('memory is MiB below a GiB, and a part has its unit only where it is another', () => {
  assert.deepEqual([memory(94), memory(3287)], ['94 MiB', '3.21 GiB']);
  assert.deepEqual(
    [memoryOf(94, 24064), memoryOf(3287, 15974), memoryOf(10, 512)],
    ['94 MiB of 23.5 GiB', '3.21 of 15.6 GiB', '10 of 512 MiB']
  );
});

test('a share of what is unknown is unknown', () => {
  assert.deepEqual([share(1, 3), share(null, 3), share(1, null), share(1, 0)], [33, null, null, null]);
});

test('runs and notebooks are called by the end of their names', () => {
  assert.deepEqual([short('20260131-142305-3f2a'), base('a/b c/mnist.ipynb'), base('x')], ['3f2a', 'mnist.ipynb', 'x']);
});

test('a curve stays within its box and leaves gaps out', () => {
  assert.equal(polyline([1], 48, 14), '');
  assert.equal(polyline([0, null, 2], 48, 14), '0.0,13.0 48.0,1.0');
  assert.equal(polyline([3, 3], 48, 14), '0.0,13.0 48.0,13.0');
  assert.equal(polyline([10, 20], 48, 14, true), '0.0,7.0 48.0,1.0');
});

test('the range of many values is round, so that it stands still', () => {
  assert.deepEqual(
    [scale([1003, 1337]), scale([3, 97]), scale([]), scale([0.2, 0.9])],
    [
      [1000, 1400],
      [3, 97],
      [0, 0],
      [0, 1]
    ]
  );
});
