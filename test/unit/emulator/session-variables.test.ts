import { describe, expect, it } from 'vitest';
import { acceptVariables, createSessionVariables } from '../../../emulator/session-variables.js';

const RESERVED = ['PATH', 'HOME', 'SHELL', 'USER', 'LOGNAME', 'PWD', 'OLDPWD', 'SHLVL', '_', 'IFS']
  .concat(['BASH_ENV', 'ENV', 'SHELLOPTS', 'BASHOPTS', 'PS4', 'PROMPT_COMMAND', 'CDPATH', 'GLOBIGNORE'])
  .concat(['NODE_OPTIONS', 'NODE_CHANNEL_FD', 'NODE_CHANNEL_SERIALIZATION_MODE', 'SECRET_MASTER_KEY'])
  .concat(['LD_PRELOAD', 'LD_LIBRARY_PATH', 'DYLD_INSERT_LIBRARIES', 'BASH_FUNC_ls', 'SCF_SANDBOX_URL'])
  .concat(['GIT_ARCHIVE_REPO', 'GIT_ARCHIVE_TOKEN', 'GIT_ARCHIVE_USER']);
const NOT_NAMES = ['', '1A', 'A-B', 'A=B', 'A B', 'BASH_FUNC_ls%%', 'é', 'a.b', 'A\n'];

describe('variables that a client sends', () => {
  it.each([...RESERVED, ...NOT_NAMES])('are ignored under the name %j', (name) => {
    expect(acceptVariables({ [name]: 'value' })).toEqual({ accepted: {}, ignored: [name] });
  });

  it.each(['TENCENTCLOUD_SECRETID', 'CLOUDBASE_ENV_ID', 'WORKSPACE_FOLDER_PATHS', 'lower', '_X', 'PATH2', 'MY_PATH'])(
    'are set under the name %s',
    (name) => {
      expect(acceptVariables({ [name]: 'value' })).toEqual({ accepted: { [name]: 'value' }, ignored: [] });
    },
  );

  it('are split one by one, and may be empty', () => {
    expect(acceptVariables({ A: '', PATH: '/evil', B: 'b' })).toEqual({
      accepted: { A: '', B: 'b' },
      ignored: ['PATH'],
    });
  });
});

describe('the variables of a session', () => {
  it('have the last value for all conversations, and the own value where there is one', () => {
    const variables = createSessionVariables();
    variables.apply({ ID: 'first', FOLDER: '/a' }, 'A');
    variables.apply({ ID: 'second', FOLDER: '/b' }, 'B');
    expect(variables.for('A')).toEqual({ ID: 'first', FOLDER: '/a' });
    expect(variables.for('B')).toEqual({ ID: 'second', FOLDER: '/b' });
    expect(variables.for('C')).toEqual({ ID: 'second', FOLDER: '/b' });
    expect(variables.for(undefined)).toEqual({ ID: 'second', FOLDER: '/b' });
  });

  it('go to the next generation by a snapshot, which shares nothing with it', () => {
    const first = createSessionVariables();
    first.apply({ ID: 'one' }, 'A');
    const second = createSessionVariables(first.snapshot());
    second.apply({ ID: 'two' }, 'A');
    expect(first.for('A')).toEqual({ ID: 'one' });
    expect(second.for('A')).toEqual({ ID: 'two' });
  });

  it('keep conversations apart whatever their ids are', () => {
    const variables = createSessionVariables();
    variables.apply({ ID: 'own' }, 'constructor');
    variables.apply({ ID: 'all' }, undefined);
    expect(variables.for('constructor')).toEqual({ ID: 'own' });
    expect(variables.for('toString')).toEqual({ ID: 'all' });
  });
});
