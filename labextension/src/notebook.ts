/** Puts a cell into the notebook that is open, by Jupyter's own commands: works in JupyterLab and in Notebook 7. */

import { JupyterFrontEnd } from '@jupyterlab/application';

/** The little of a notebook that is needed here, so that the whole package need not be. */
interface INotebookLike {
  content: { mode: string; activeCell: { model: { sharedModel: { setSource(text: string): void } } } | null };
}

function isNotebook(widget: unknown): widget is INotebookLike {
  const content = (widget as Partial<INotebookLike> | null)?.content;
  return !!content && typeof content === 'object' && 'activeCell' in content && 'mode' in content;
}

export function openNotebook(app: JupyterFrontEnd): INotebookLike | null {
  const widget: unknown = app.shell.currentWidget;
  return isNotebook(widget) ? widget : null;
}

export async function insertCell(app: JupyterFrontEnd, text: string): Promise<boolean> {
  if (!openNotebook(app)) {
    return false;
  }
  await app.commands.execute('notebook:insert-cell-below');
  const notebook = openNotebook(app);
  notebook?.content.activeCell?.model.sharedModel.setSource(text);
  if (notebook) {
    notebook.content.mode = 'edit';
  }
  return true;
}
