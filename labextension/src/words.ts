/** Numbers as people read them. Pure, the same everywhere in the panel and in the run view. */

const THIN = '\u202f';

/** 1 077 */
export function whole(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, THIN);
}

/** Three significant digits: 5 230, 41.2, 0.873; unknown is a dash. */
export function rate(value: number | null): string {
  if (value === null) {
    return '–';
  }
  if (value >= 100) {
    return whole(Number(value.toPrecision(3)));
  }
  return value === 0 ? '0' : value.toPrecision(3);
}

/** Three decimals, 4.2e-4 below a thousandth; words stay. */
export function metric(value: number | string): string {
  if (typeof value === 'string') {
    return value === 'nan' ? 'NaN' : value;
  }
  const size = Math.abs(value);
  if (size > 0 && size < 0.001) {
    return value.toExponential(1);
  }
  return size >= 1000 ? whole(value) : value.toFixed(3);
}

/** 0:28, 1:23, 1:02:03, 2 d 04:11 */
export function clock(seconds: number): string {
  const all = Math.max(0, Math.round(seconds));
  const two = (n: number) => n.toString().padStart(2, '0');
  const hours = Math.floor(all / 3600);
  const minutes = Math.floor(all / 60) % 60;
  if (hours >= 24) {
    return `${Math.floor(hours / 24)} d ${two(hours % 24)}:${two(minutes)}`;
  }
  return hours ? `${hours}:${two(minutes)}:${two(all % 60)}` : `${minutes}:${two(all % 60)}`;
}

/** Whole MiB below 1 GiB, then three digits of GiB. */
export function memory(mebibytes: number): string {
  return mebibytes < 1024 ? `${mebibytes} MiB` : `${(mebibytes / 1024).toPrecision(3)} GiB`;
}

/** 3.21 of 15.6 GiB, 92 MiB of 15.6 GiB */
export function memoryOf(part: number, total: number): string {
  const [left, right] = [memory(part), memory(total)];
  const unit = right.slice(-4);
  return `${left.endsWith(unit) ? left.slice(0, -4) : left} of ${right}`;
}

/** Whole per cent of the total; null when either is unknown. */
export function share(part: number | null, total: number | null): number | null {
  return part === null || !total ? null : Math.round((100 * part) / total);
}

/** A range of round numbers around the values, so that it does not change with each of them. */
export function scale(values: readonly number[]): [number, number] {
  if (!values.length) {
    return [0, 0];
  }
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(high, 1))) - 1);
  return [Math.floor(low / unit) * unit, Math.ceil(high / unit) * unit];
}

/** The end of a run's id, enough to tell runs apart. */
export function short(runId: string): string {
  return runId.slice(runId.lastIndexOf('-') + 1);
}

/** The last part of a path. */
export function base(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** Points of a polyline in a box of this size; the line stays within it. */
export function polyline(values: readonly (number | null)[], width: number, height: number, fromZero = false): string {
  const known = values.filter((value): value is number => value !== null);
  if (known.length < 2) {
    return '';
  }
  const low = fromZero ? 0 : Math.min(...known);
  const span = Math.max(...known) - low || 1;
  const step = width / (values.length - 1);
  const points: string[] = [];
  values.forEach((value, at) => {
    if (value !== null) {
      points.push(`${(at * step).toFixed(1)},${(height - 1 - ((value - low) / span) * (height - 2)).toFixed(1)}`);
    }
  });
  return points.join(' ');
}
