/**
 * Watches directories and tells its parent what changes in them. Links are never followed: what an agent
 * puts into its workspace must not lead the watcher out of it.
 */
import path from 'node:path';
import { type FSWatcher, watch } from 'chokidar';
import { z } from 'zod';

const orderSchema = z.object({ directories: z.array(z.string()) });
const watchers = new Map<string, FSWatcher>();

/** Trees that change by the thousand and that nobody reads about. */
const IGNORED = /(?:^|[/\\])(?:\.git|node_modules)(?:[/\\]|$)/;

process.on('disconnect', () => process.exit(0));
process.on('message', (raw) => {
  const { directories } = orderSchema.parse(raw);
  const wanted = new Set(directories);
  for (const [directory, watcher] of watchers) {
    if (wanted.has(directory)) continue;
    watchers.delete(directory);
    void watcher.close();
  }
  for (const directory of wanted) if (!watchers.has(directory)) watchers.set(directory, watchDirectory(directory));
});

function watchDirectory(directory: string): FSWatcher {
  const watcher = watch(directory, {
    followSymlinks: false,
    ignoreInitial: true,
    ignored: (name) => IGNORED.test(path.relative(directory, name)),
  });
  watcher.on('all', (change, name) => {
    const relative = path.relative(directory, name);
    if (relative !== '') process.send?.({ directory, path: relative, change });
  });
  watcher.on('ready', () => process.send?.({ directory, path: '', change: 'ready' }));
  watcher.on('error', (error) => console.error('file watcher:', error));
  return watcher;
}
