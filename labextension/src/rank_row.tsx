/** One rank in the tree: two lines in a narrow panel, one in a wide one. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';
import { Icon } from './icons';
import { stateWord } from './labels';
import { IRank } from './protocol';
import { polyline, rate, share, whole } from './words';

export function Spark({ values, fromZero }: { values: readonly (number | null)[]; fromZero?: boolean }): JSX.Element | null {
  const points = polyline(values, 48, 14, fromZero);
  return points ? (
    <svg className="gpl-spark" viewBox="0 0 48 14" preserveAspectRatio="none" aria-hidden="true">
      <polyline points={points} />
    </svg>
  ) : null;
}

function Meter({ value, name, place }: { value: number | null; name: string; place: string }): JSX.Element {
  if (value === null) {
    return (
      <span className={`gpl-m none ${place}`} title={`${name} –`}>
        <span aria-hidden="true">–</span>
      </span>
    );
  }
  return (
    <span className={`gpl-m ${place}`} title={`${name} ${value} %`}>
      <span className="hidden">{name} </span>
      {value} %<i style={{ width: `${Math.min(100, value)}%` }} />
    </span>
  );
}

interface IRankRowProps {
  id: string;
  rank: IRank;
  selected: boolean;
  focusable: boolean;
  trans: TranslationBundle;
}

export const RankRow = React.memo(function RankRow({ id, rank, selected, focusable, trans }: IRankRowProps) {
  const gone = rank.state === 'dead' || rank.state === 'failed' || rank.state === 'silent';
  const spark = <Spark values={rank.rates} fromZero />;
  return (
    <div
      role="treeitem"
      aria-level={3}
      aria-selected={selected}
      data-key={id}
      className={`gpl-rk${gone && rank.detail ? ' gone' : ''}`}
      tabIndex={focusable ? 0 : -1}
    >
      <span className="i">
        <Icon name={rank.state} />
      </span>
      <span className="r">
        <span className="hidden">{trans.__('rank')} </span>
        {rank.rank}
      </span>
      <span className="d">{rank.device}</span>
      {gone && rank.detail ? (
        <>
          <span className="s">
            <b>{stateWord(rank.state, trans)}</b>
          </span>
          <span className="why">{rank.detail}</span>
        </>
      ) : (
        <>
          <span className="s" title={rank.detail}>
            {stateWord(rank.state, trans)}
            <span className="narrow">{spark}</span>
          </span>
          <span className="a">
            <span className="hidden">{trans.__('step')} </span>
            {rank.step === null ? '–' : whole(rank.step)}
          </span>
          <span className="b">
            {rate(rank.rate)}
            <span className="hidden"> {trans.__('samples/s')}</span>
          </span>
          <span className="k wide">{spark}</span>
          <Meter value={rank.cpu} name={trans.__('CPU')} place="c" />
          <Meter value={share(rank.memory, rank.machine)} name={trans.__('memory')} place="m" />
          <Meter value={share(rank.gpu_memory, rank.gpu_total)} name={trans.__('GPU memory')} place="g" />
        </>
      )}
    </div>
  );
});
