#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what README shows: readme_test.py SOURCE_DIR BIN_DIR.

Shell lines that begin with `shardmill` or `for` run in a folder with generated `photos`; the Python
block runs behind them in the same folder; the C++ block must stand word for word in
examples/quickstart.cc, which the build compiles; every file that README links to must exist.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

source, binaries = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
readme = (source / 'README.md').read_text()
blocks = re.findall(r'```(\w+)\n(.*?)```', readme, re.S)


def run(command, folder):
    print('$', command if isinstance(command, str) else 'python3: ' + command[-1], flush=True)
    env = dict(os.environ, PATH=f'{binaries}:{os.environ["PATH"]}')
    shell = ['/bin/bash', '-euo', 'pipefail', '-c', command] if isinstance(command, str) else command
    subprocess.run(shell, cwd=folder, env=env, check=True, timeout=240, stdin=subprocess.DEVNULL)


def code(kind):
    return [line for name, text in blocks if name == kind for line in text.splitlines() if line]


first_screen = readme.splitlines()[:40]
assert all(len(line) <= 100 for line in first_screen), 'a line of the first screen is too long'
for needed in ('scripts/demo', 'scripts/test', '```cpp', '```python', 'shardmill bench'):
    assert any(needed in line for line in first_screen), f'{needed} is not on the first screen'

for target in re.findall(r'\]\(([^)#:]+)\)', readme):
    assert (source / target).exists(), f'README links to {target}, which is missing'

example = (source / 'examples/quickstart.cc').read_text().split('// [readme]\n')[1]
assert any(name == 'cpp' and text == example for name, text in blocks), \
    'the C++ block of README differs from examples/quickstart.cc'

with tempfile.TemporaryDirectory() as folder:
    run('make_photos photos --count 60 --classes 3', folder)
    commands = [line for line in code('sh') if line.startswith(('shardmill', 'for '))]
    assert len(commands) >= 3
    for command in commands:
        # Short measurements: that the command works is tested, not what it measures.
        bench = command.startswith('shardmill bench')
        short = ' --seconds 0.2 --repeats 1 --workers 0,1'
        run(command.split('#')[0] + short if bench else command, folder)
    run(['/usr/bin/python3', '-c', '\n'.join(code('python'))], folder)
    left = sorted(path.name for path in pathlib.Path(folder).iterdir())
    assert left == ['hdf5', 'lmdb', 'photos', 'tar'], f'left behind: {left}'
print('README is right')
