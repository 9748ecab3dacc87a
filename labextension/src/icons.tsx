/** Icons of 16 × 16: the shape carries the meaning, the colour repeats it. */

import * as React from 'react';

const SHAPES: Record<string, React.ReactNode> = {
  running: <circle className="f" cx="8" cy="8" r="5.2" />,
  waiting: <path d="M5.5 3.5v9M10.5 3.5v9" strokeWidth="2.4" />,
  silent: (
    <>
      <circle cx="8" cy="8" r="5.4" strokeDasharray="2.2 2.6" />
      <path d="M8 5.2v3.4" />
      <circle className="f" cx="8" cy="11" r="1" />
    </>
  ),
  stopped: <rect className="f" x="3.6" y="3.6" width="8.8" height="8.8" />,
  stopping: <rect x="3.8" y="3.8" width="8.4" height="8.4" />,
  failed: <path d="M4 4l8 8M12 4l-8 8" strokeWidth="2.2" />,
  dead: (
    <>
      <circle cx="8" cy="8" r="5.4" />
      <path d="M4.2 11.8l7.6-7.6" />
    </>
  ),
  idle: <circle cx="8" cy="8" r="4.6" />,
  starting: (
    <g className="turn">
      <path d="M8 2.8a5.2 5.2 0 1 1-5.2 5.2" />
    </g>
  ),
  finished: <path d="M3 8.6l3.4 3.4L13 4.8" strokeWidth="2" />,
  warning: (
    <>
      <path d="M8 2.4l6.2 11H1.8z" />
      <path d="M8 6.6v3.1" />
      <circle className="f" cx="8" cy="11.6" r=".9" />
    </>
  ),
  stop: <rect className="f" x="4" y="4" width="8" height="8" />,
  add: <path d="M8 3v10M3 8h10" />,
  refresh: (
    <>
      <path d="M12.6 6.2A5 5 0 1 0 13 8.8" />
      <path d="M13 2.8v3.6H9.4" />
    </>
  ),
  insert: <path d="M2.5 3.5h11v4h-11zM8 10v4M6 12h4" />,
  copy: <path d="M5.5 5.5h7v8h-7zM3.5 10.5v-8h7" />,
  open: <path d="M9 3h4v4M13 3L7.5 8.5M11 9.5v3.5H3V5h3.5" />,
  close: <path d="M4.5 4.5l7 7M11.5 4.5l-7 7" />
};

export const Icon = React.memo(function Icon({ name, label }: { name: string; label?: string }) {
  const hidden = label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': true };
  return (
    <svg className={`gpl-i ${name}`} viewBox="0 0 16 16" {...hidden}>
      {SHAPES[name]}
    </svg>
  );
});

interface IButtonProps {
  icon?: string;
  text?: string;
  label?: string;
  className?: string;
  disabled?: boolean;
  onClick: () => void;
}

/** A button with a name: the text, or the label of an icon that stands alone. */
export function Button({ icon, text, label, className, disabled, onClick }: IButtonProps): JSX.Element {
  const alone = text ? '' : ' icon';
  return (
    <button
      type="button"
      className={`gpl-btn${alone} ${className ?? ''}`}
      title={label}
      aria-label={text ? undefined : label}
      disabled={disabled}
      onClick={onClick}
    >
      {icon && <Icon name={icon} />}
      {text}
    </button>
  );
}
