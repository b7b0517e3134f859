import type { ChildProcess } from 'node:child_process';
import type { Duplex } from 'node:stream';

/** How instances are kept apart: `namespace` by bubblewrap, `none` not at all. */
export type IsolationMode = 'namespace' | 'none';

/** Where an instance lies on the host. */
export type InstanceDirectories = {
  /** Seen as `/tmp` in namespace mode. */
  tmp: string;
  /** Holds the home directory. */
  home: string;
  /** Short path for the socket, FIFOs and scratch files; of this generation alone. */
  private: string;
};

/** The same directories, and the programs, as the instance sees them. */
type InstanceView = { home: string; private: string; node: string; entry: string; tmp?: string };

export type LaunchedInstance = {
  child: ChildProcess;
  /** Connected to descriptor 3 of the program. */
  channel: Duplex;
  /** Pid on the host of the program that was asked for. */
  pid(): Promise<number | undefined>;
  /** Ends everything inside, at once. */
  kill(): void;
  /** Resolves when nothing that ran inside is left. Never rejects. */
  ended: Promise<void>;
};

/** Starts programs inside an instance's walls. One launcher serves a whole run of the emulator. */
export type Launcher = {
  mode: IsolationMode;
  view(directories: InstanceDirectories): InstanceView;
  /** @param program Path, as the instance sees it, and arguments. */
  launch(directories: InstanceDirectories, program: string[], env: Record<string, string>): LaunchedInstance;
};
