import type { Agent } from 'node:http';
import path from 'node:path';
import type { InstanceProcess } from '../../emulator/gateway/instance-process.js';

/** An instance as the proxy sees it, behind a socket of the test's own; it has died as soon as somebody asks. */
export function fakeInstance(directory: string, agent: Agent, socket = 'http.sock'): InstanceProcess {
  const place = { directory, tmp: directory, home: directory, hostWorkspace: directory, base: directory };
  return {
    id: 'i1',
    pid: undefined,
    rootPid: undefined,
    isolated: true,
    place: { ...place, sessionRoot: '/tmp' },
    socketPath: path.join(directory, socket),
    agent,
    ended: Promise.resolve({ exitCode: 1, signal: null }),
    stop: async () => {},
    kill() {},
  };
}
