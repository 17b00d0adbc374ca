# SPDX-License-Identifier: GPL-2.0
"""Run every example of README.md and Documentation/, and check what the
reference pages leave out.

run-docs has all examples, run-docs-bpf only those that need BPF programs: pages, and blocks of
other pages. They need root, the module loaded, and the library and the tool built in the tree.

Examples are the code blocks of the languages "console" and "c":

* console: lines "$ COMMAND" or "# COMMAND" (the second for root), continued by
  lines "> ", and between them what the commands print. "..." matches
  anything in a line, and alone on a line any number of lines; runs of
  blanks are equal. The blocks of a page run in one shell, one after the other.
  A command that fails is to be followed by "echo $?".
* c: a program, or a part of one. A part is put in a function in which `kv` is a
  session on a new store and `err` an int; it is to leave err at 0. The parts of
  a page are compiled together, as the compiler is slow on an emulated machine.

A comment in front of a block (".. docs: WORDS" in reStructuredText,
"<!-- docs: WORDS -->" in Markdown) says more about it:

* file NAME: a program that is stored under this name, for the console blocks
  that follow, instead of being run.
* output: a block of the language "text", what the C example before it prints.
* syntax: declarations or a layout, compiled and not run (c), or not looked at.
* bpf: BPF programs, or a part of one, compiled for BPF and loaded into the kernel. A
  part is put in a function and sees the `store` of the page's programs, together with
  which all parts are compiled.
* with-bpf: a console block that needs BPF programs, and nothing of the page but such blocks.
* with-raid: a console block that makes mirrors.
* not-run WHY: cannot run here. Such blocks are counted as skipped, so that it
  is seen how many there are.

At the top of a page ".. docs: page bpf" says that all of it needs BPF programs, and
that it ends by unloading the module, which is loaded again after it. If the kernel
offers nothing to BPF programs, such pages and blocks are skipped.

With KVT_COMPILED=FOLDER in the environment, clang's work is cached there by ccache;
--compile fills it, on a machine that needs no module.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from headers import (TOP, lib_functions, read, require, uapi_fields, uapi_names)
from ktap import DEVICE, Failure, Report, skip_all

# Seconds, for what never ends: a BPF compiler takes minutes on an emulated machine with much else
# to do.
TIMEOUT = 550
RUNNABLE = ('console', 'c')
# Languages of examples that could be commands or C, under another name.
NOT_ALLOWED = ('sh', 'bash', 'shell', 'shell-session', 'C', 'cpp')


class Block:
    def __init__(self, page, line, language, directive, text):
        self.page = page
        self.line = line
        self.language = language
        self.verb, _, self.rest = directive.partition(' ')
        self.text = text

    def is_part(self):
        """Whether it is a part of a C program, to be run."""
        return (self.language == 'c' and not self.verb and
                not any(re.search(r'\bint main\(', line) for line in self.text))

    def is_bpf_part(self):
        """Whether it is a part of a BPF program."""
        return not any('SEC(' in line for line in self.text)


class Page:
    def __init__(self, path):
        self.name = os.path.relpath(path, TOP)
        with open(path, encoding='utf-8') as f:
            self.lines = f.read().split('\n')
        if path.endswith('.md'):
            self.blocks = list(self.markdown())
        else:
            self.blocks = list(self.rst())

    @property
    def text(self):
        return '\n'.join(self.lines)

    @property
    def needs_bpf(self):
        return '.. docs: page bpf' in self.lines

    @property
    def has_bpf(self):
        return self.needs_bpf or any(block.verb in ('bpf', 'with-bpf') for block in self.blocks)

    @property
    def has_raid(self):
        return any(block.verb == 'with-raid' for block in self.blocks)

    def directive_before(self, at, pattern):
        """The directive in the lines before a block, blank lines aside."""
        at -= 1
        while at >= 0 and not self.lines[at].strip():
            at -= 1
        found = re.match(pattern, self.lines[at]) if at >= 0 else None
        return found[1].strip() if found else ''

    def markdown(self):
        at = 0
        while at < len(self.lines):
            fence = re.match(r'```(\S*)$', self.lines[at])
            if not fence:
                at += 1
                continue
            directive = self.directive_before(at, r'<!-- docs: (.*) -->$')
            start = at + 1
            at = self.lines.index('```', start)
            yield Block(self, start + 1, fence[1], directive, self.lines[start:at])
            at += 1

    def rst(self):
        for at, line in enumerate(self.lines):
            found = re.match(r'( *)\.\. (?:code-block|code|highlight):: *(\S*)$', line)
            if not found:
                continue
            directive = self.directive_before(at, r' *\.\. docs: (.*)$')
            depth = len(found[1]) + 3
            start = end = at + 1
            while end < len(self.lines) and (
                    not self.lines[end].strip() or
                    self.lines[end].startswith(' ' * depth)):
                end += 1
            body = [line[depth:] for line in self.lines[start:end]]
            while body and (not body[0].strip() or re.match(r':\S+:', body[0])):
                body.pop(0)
                start += 1
            while body and not body[-1].strip():
                body.pop()
            yield Block(self, start + 1, found[2], directive, body)


def pages():
    paths = [os.path.join(TOP, 'README.md')]
    folder = os.path.join(TOP, 'Documentation')
    paths += sorted(os.path.join(folder, name) for name in os.listdir(folder)
                    if name.endswith('.rst'))
    return [Page(path) for path in paths]


def bpf_pages(all_pages):
    """Those that need BPF programs; of the others their blocks that do."""
    for page in all_pages:
        if not page.needs_bpf:
            page.blocks = [block for block in page.blocks
                           if block.verb in ('bpf', 'with-bpf', 'file')]
    return [page for page in all_pages if page.has_bpf]


def matches(expected, printed):
    """Whether lines that were printed are those expected, with "..."."""
    def line_pattern(line):
        words = ' '.join(line.split())
        return r'[^\n]*'.join(re.escape(part) for part in words.split('...')) + r'\n'

    pattern = ''.join(r'(?:[^\n]*\n)*' if line.strip() == '...' else line_pattern(line)
                      for line in expected)
    text = ''.join(' '.join(line.split()) + '\n' for line in printed)
    return re.fullmatch(pattern, text) is not None


def differ(what, expected, printed):
    return Failure('\n'.join([f'{what}: expected'] + [f'  {line}' for line in expected] +
                             ['but got'] + [f'  {line}' for line in printed]))


class Shell:
    """A shell that runs commands one by one and tells what each printed."""

    MARK = 'run-docs-end-of-command'

    def __init__(self, env, cwd):
        self.process = subprocess.Popen(
            ['bash', '--norc', '--noprofile'], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd, env=env,
            encoding='utf-8', errors='backslashreplace', start_new_session=True)

    def run(self, command):
        """Returns the exit status and the lines."""
        # Commands must not read the script. $? is theirs again afterwards.
        self.process.stdin.write(
            f'(exit $__status)\n{{ {command}\n}} </dev/null\n__status=$?\n'
            f'printf "\\n%s %d\\n" {self.MARK} $__status\n')
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            line = line.rstrip('\n')
            if line.startswith(self.MARK + ' '):
                # The newline in front of the mark is not the command's.
                if lines and not lines[-1]:
                    lines.pop()
                return int(line.split()[1]), lines
            lines.append(line)
        raise differ('the shell ended', [], lines)

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def commands(block):
    """Pairs of a command and the lines expected from it."""
    found = []
    in_command = False
    for line in block.text:
        if re.match(r'[$#] ', line):
            found.append(([line[2:]], []))
            in_command = True
        elif in_command and re.match(r'> ', line):
            found[-1][0].append(line[2:])
        elif found:
            in_command = False
            found[-1][1].append(line)
        elif line.strip():
            raise Failure(f'output without a command: {line}')
    return [('\n'.join(command), expected) for command, expected in found]


def run_console(shell, block):
    steps = commands(block)
    if not steps:
        raise Failure('no command: lines with one begin with "$ " or "# "')
    for number, (command, expected) in enumerate(steps):
        status, printed = shell.run(command)
        while expected and not expected[-1].strip():
            expected = expected[:-1]
        if not matches(expected, printed):
            raise differ(f'{command} (exit status {status})', expected, printed)
        after = steps[number + 1][0] if number + 1 < len(steps) else ''
        if status and not after.startswith('echo $?'):
            raise Failure(f'{command}: exit status {status}, which the page does not show')


class Runner:
    def __init__(self, work):
        self.work = work
        self.tool = os.path.join(TOP, 'tools', 'kvtree')
        self.env = dict(os.environ, LC_ALL='C.UTF-8', HOME=work)
        self.env['PATH'] = f'{work}/bin:{TOP}/tools:' + self.env.get('PATH', '')
        self.env['LD_LIBRARY_PATH'] = f'{TOP}/lib'
        self.env['PKG_CONFIG_PATH'] = work
        self.programs = 0
        self.parts = {}  # of a page: its program
        self.make_pkg_config()
        self.make_clang()
        self.has_bpf = False
        self.has_raid = False
        self.bwtree = ''  # the module to load at the end, as it was loaded
        self.no_raid = 'this kernel makes no mirrors'

    def make_pkg_config(self):
        """What "make install" would make, for the tree."""
        flags = f'-I{TOP}/lib -I{TOP}/uapi -L{TOP}/lib -lkvtree'
        with open(f'{TOP}/lib/kvtree.pc.in', encoding='utf-8') as f:
            text = f.read()
        for name, value in (('prefix', TOP), ('libdir', f'{TOP}/lib'), ('version', '0'),
                            ('includedir', f'{TOP}/lib -I{TOP}/uapi')):
            text = text.replace(f'@{name}@', value)
        with open(f'{self.work}/kvtree.pc', 'w', encoding='utf-8') as f:
            f.write(text)
        os.mkdir(f'{self.work}/bin')
        # Not every machine has the program.
        if not shutil.which('pkg-config'):
            with open(f'{self.work}/bin/pkg-config', 'w', encoding='utf-8') as f:
                f.write(f'#!/bin/sh\necho {shlex.quote(flags)}\n')
            os.chmod(f'{self.work}/bin/pkg-config', 0o755)

    def make_clang(self):
        """Its name may have a version. What it has compiled elsewhere is not compiled again."""
        # Not a link to ccache, which would take that for the compiler.
        path = os.pathsep.join(folder for folder in os.environ.get('PATH', '').split(os.pathsep)
                               if not folder.endswith('/ccache'))
        clang = shutil.which('clang', path=path) or shutil.which('clang-19', path=path)
        folder = os.environ.get('KVT_COMPILED')
        if not clang:
            return
        if folder:
            # The same on both machines: a lane has settings of its own, and a host a language.
            self.env = {name: value for name, value in self.env.items()
                        if not name.startswith(('CCACHE_', 'LANG', 'LC_'))}
            self.env.update(LC_ALL='C.UTF-8', CCACHE_DIR=folder, CCACHE_NOHASHDIR='1')
            clang = f'ccache {clang}'
        with open(f'{self.work}/bin/clang', 'w', encoding='utf-8') as f:
            f.write(f'#!/bin/sh\nexec {clang} "$@"\n')
        os.chmod(f'{self.work}/bin/clang', 0o755)

    def prepare_bpf(self):
        """Whether the kernel offers something to BPF programs. The module is elsewhere."""
        if 'bpf' not in json.loads(self.must(self.tool, 'info', '--json'))['features']:
            return False
        os.mkdir(f'{self.work}/kmod')
        module = os.environ.get('KVTREE_MODULE', f'{TOP}/kmod/kvtree.ko')
        os.symlink(module, f'{self.work}/kmod/kvtree.ko')
        # Pages remove the module, which the Bw-tree's needs.
        if self.call('rmmod', 'kvtree_bwtree')[0] == 0:
            self.bwtree = module.replace('kvtree.ko', 'kvtree_bwtree.ko')
        if not os.path.ismount('/sys/fs/bpf'):
            self.must('mount', '-t', 'bpf', 'bpf', '/sys/fs/bpf')
        return True

    def prepare_raid(self):
        """Whether the kernel can make mirrors. Where it can, mdadm has to be there, too: the
        examples fail without it. No udev makes nodes here that it would wait for."""
        self.env['MDADM_NO_UDEV'] = '1'
        if os.path.exists('/sys/block/md42'):
            self.no_raid = 'there is an array /dev/md42, which the examples make'
            return False
        try:
            # It may be built into the kernel instead.
            self.call('modprobe', '-q', 'raid1')
            with open('/proc/mdstat', encoding='utf-8') as f:
                return '[raid1]' in f.read()
        except OSError:
            return False

    def remove_mirrors(self, stores):
        """What a page has left on its disks, if an example failed: stores but these, arrays, and
        loop devices of its folder."""
        for store in set(self.state()[0]) - set(stores):
            self.call(self.tool, 'store', 'detach', store)
        for line in self.must('losetup', '--list', '--noheadings', '--raw', '--output',
                              'NAME,BACK-FILE').splitlines():
            loop, _, path = line.partition(' ')
            if not path.startswith(f'{self.work}/'):
                continue
            for array in os.listdir(f'/sys/block/{os.path.basename(loop)}/holders'):
                self.call('mdadm', '--stop', f'/dev/{array}')
            self.call('losetup', '--detach', loop)

    def load_module(self):
        """Fails if a page has not left the machine without it."""
        self.must('insmod', f'{self.work}/kmod/kvtree.ko')
        for _ in range(600):
            if os.path.exists(DEVICE):
                return
            time.sleep(0.1)
        raise Failure(f'no {DEVICE}')

    def call(self, *args):
        """Returns the exit status and what was printed."""
        done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, cwd=self.work, env=self.env,
                              timeout=TIMEOUT, check=False)
        return done.returncode, done.stdout.decode('utf-8', 'backslashreplace')

    def must(self, *args):
        status, printed = self.call(*args)
        if status:
            raise Failure(f'{shlex.join(args)}: exit status {status}\n{printed}')
        return printed

    def state(self):
        """What examples could leave behind: stores, and keys of the default one."""
        stores = re.findall(r'"name": "([^"]*)"',
                            self.must(self.tool, 'store', 'list', '--json'))
        return sorted(stores), self.must(self.tool, 'scan', '--keys-only')

    def compile(self, source, *more):
        self.programs += 1
        path = f'{self.work}/example-{self.programs}'
        with open(f'{path}.c', 'w', encoding='utf-8') as f:
            f.write(source)
        self.must('cc', '-std=gnu11', '-D_GNU_SOURCE', '-Wall', '-Werror', '-Wno-unused',
                  '-Wno-maybe-uninitialized', f'-I{TOP}/lib', f'-I{TOP}/uapi',
                  '-o', path, f'{path}.c', *more)
        return path

    def compile_parts(self, page):
        """A program that runs a part of a page: STORE LINE."""
        functions, cases = [], []
        for block in page.blocks:
            if block.is_part():
                functions.append(PART.format(line=block.line, page=page.name,
                                             text='\n'.join(block.text)))
                cases.append(f'\tcase {block.line}:\n\t\terr = part_{block.line}(kv);\n'
                             '\t\tbreak;\n')
        return self.compile(INCLUDES + ''.join(functions) +
                            MAIN.replace('CASES', ''.join(cases)), *LIBRARY)

    def run_part(self, block):
        if block.page not in self.parts:
            self.parts[block.page] = self.compile_parts(block.page)
        store = f'docs-{os.getpid()}-{block.line}'
        self.must(self.tool, 'store', 'create', store)
        try:
            return self.must(self.parts[block.page], store, str(block.line))
        finally:
            self.must(self.tool, 'store', 'destroy', store)

    def run_c(self, block):
        """Returns what the example printed."""
        if block.is_part():
            return self.run_part(block)
        text = f'#line {block.line} "{block.page.name}"\n' + '\n'.join(block.text) + '\n'
        if block.verb == 'syntax':
            self.compile(INCLUDES + text, '-c')
            return ''
        return self.must(self.compile(text, *LIBRARY))

    def compile_bpf(self, page):
        """All BPF programs of a page: page.bpf.o."""
        whole, parts = [], []
        for block in page.blocks:
            if block.verb != 'bpf':
                continue
            text = f'#line {block.line} "{TOP}/{page.name}"\n' + '\n'.join(block.text)
            if block.is_bpf_part():
                parts.append(f'SEC("xdp")\nint part_{block.line}(struct xdp_md *ctx)\n'
                             f'{{\n{text}\n\treturn XDP_PASS;\n}}\n')
            else:
                whole.append(text + '\n')
        with open(f'{self.work}/page.bpf.c', 'w', encoding='utf-8') as f:
            f.write(''.join(whole + parts))
        machine = self.must('cc', '-print-multiarch').strip() or 'x86_64-linux-gnu'
        self.must('clang', '-g', '-O2', '-Wall', '-Werror', '-Wno-unused', '-target', 'bpf',
                  f'-I{TOP}/uapi', f'-I/usr/include/{machine}', '-c', '-o', 'page.bpf.o',
                  'page.bpf.c')

    def run_bpf(self, page):
        """Compile all BPF programs of a page and load them, which verifies them."""
        pins = '/sys/fs/bpf/run-docs'
        self.compile_bpf(page)
        self.must('bpftool', 'prog', 'loadall', 'page.bpf.o', pins)
        shutil.rmtree(pins)

    def save(self, block):
        with open(f'{self.work}/{block.rest}', 'w', encoding='utf-8') as f:
            f.write('\n'.join(block.text) + '\n')


INCLUDES = '''\
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <kvtree.h>
'''

PART = '''
static int part_{line}(struct kvtree *kv)
{{
	int err = 0;

	{{
#line {line} "{page}"
{text}
	}}
	return err;
}}
'''

MAIN = '''
#line 1 "main"
int main(int argc, char **argv)
{
	struct kvtree *kv;
	int err = argc == 3 ? kvtree_open(argv[1], 0, &kv) : -EINVAL;

	if (err)
		errx(1, "open: %s", kvtree_strerror(err));
	switch (atoi(argv[2])) {
CASES	}
	if (err)
		errx(1, "left err at %d: %s", err, kvtree_strerror(err));
	kvtree_close(kv);
	return 0;
}
'''

LIBRARY = (f'-L{TOP}/lib', '-lkvtree')


def run_page(page, runner, report):
    """Run the blocks of a page, in order."""
    shell = Shell(runner.env, runner.work)
    before = runner.state()
    printed = None
    bpf_done = False
    try:
        for block in page.blocks:
            name = f'{page.name}:{block.line}'
            if block.verb == 'not-run':
                report.skip(name, block.rest)
                continue
            if (block.verb in ('bpf', 'with-bpf') or page.needs_bpf) and not runner.has_bpf:
                if block.verb != 'file':
                    report.skip(name, 'this kernel offers nothing to BPF programs')
                continue
            if block.verb == 'with-raid' and not runner.has_raid:
                report.skip(name, runner.no_raid)
                continue
            if block.verb == 'bpf':
                # All of a page at once: the compiler is slow on an emulated machine.
                if not bpf_done:
                    report.run(name, lambda: runner.run_bpf(page))
                bpf_done = True
                continue
            if block.verb == 'file':
                runner.save(block)
                continue
            if block.language in NOT_ALLOWED:
                report.run(name, lambda b=block: refuse(b))
            elif block.language == 'console' and block.verb in ('', 'with-bpf', 'with-raid'):
                report.run(name, lambda b=block: run_console(shell, b))
            elif block.language == 'c':
                printed = report.run(name, lambda b=block: runner.run_c(b))
            elif block.verb == 'output':
                report.run(name, lambda b=block, p=printed: compare_output(b, p))
    finally:
        shell.close()
    if page.needs_bpf and runner.has_bpf:
        report.run(f'{page.name}:load', runner.load_module)
    if page.blocks:
        report.run(f'{page.name}:leaves_nothing_behind',
                   lambda: same_state(before, runner.state()))


def refuse(block):
    raise Failure(f'examples of the language "{block.language}" are not run: '
                  'use "console" or "c"')


def compare_output(block, printed):
    lines = (printed or '').rstrip('\n').split('\n')
    if not matches(block.text, lines):
        raise differ('the example before', block.text, lines)


def same_state(before, after):
    if before != after:
        raise Failure(f'stores and keys were {before} and are {after}')


# Reference pages that only a kernel, or the tool, can be compared with.

def tool_names_everything(runner):
    page = read('Documentation', 'tool.rst') + read('Documentation', 'bench.rst')
    names = tool_commands(runner)
    for command in list(names):
        text = runner.must(runner.tool, 'help', *command.split())
        names += re.findall(r'(--[a-z][a-z-]*)', text)
    require(page, sorted(set(names)))


def tool_commands(runner):
    text = runner.must(runner.tool, 'help')
    return re.findall(r'^  ([a-z-]+(?: [a-z-]+)?) {2,}', text.partition('Commands:')[2].partition(
        'Exit status')[0], re.MULTILINE)


def bench_stock_sources():
    folder = os.path.join(TOP, 'tools', 'bench', 'stock')
    return ''.join(read('tools', 'bench', 'stock', name) for name in sorted(os.listdir(folder))
                   if name.endswith('.c'))


def prose_names_what_exists(all_pages, runner):
    """Commands, targets, functions and constants in the text are there."""
    makefile = read('Makefile')
    targets = {target for line in re.findall(r'^([\w -]+):', makefile, re.MULTILINE)
               for target in line.split()}
    commands_there = set(tool_commands(runner)) | {'help'}
    # Ways to ask it are named like commands there.
    commands_there |= set(re.findall(r'"kvtree ([a-z][a-z-]*)', bench_stock_sources()))
    symbols = set(uapi_names()) | set(lib_functions()) | set(uapi_fields())
    symbols |= set(re.findall(r'\bKVTREE_\w+|\bkvtree_\w+', read('lib', 'kvtree.h')))
    symbols |= set(re.findall(r'\bKVTREE_\w+', read('uapi', 'linux', 'kvtree_format.h')))
    symbols |= set(re.findall(r'\bKVTREE_\w+|\bKVT_\w+', read('Makefile')))
    symbols |= set(re.findall(r'\bKVTREE_\w+', read('lib', 'python', 'kvtree_build.py')))
    symbols |= set(re.findall(r'getenv\("(\w+)"\)', read('tools', 'kvtree.c')))
    wrong = []
    for page in all_pages:
        text = page.text
        for target in re.findall(r'`make ([a-z][a-z0-9-]*)', text):
            if target not in targets:
                wrong.append(f'{page.name}: make {target}')
        for words in re.findall(r'`kvtree (?:-\S+ )*([a-z][a-z-]*(?: [a-z][a-z-]*)?)', text):
            if not {words, words.split()[0]} & commands_there:
                wrong.append(f'{page.name}: kvtree {words}')
        for symbol in re.findall(r'\b(?:KVTREE_[A-Z]\w+|kvtree_\w+(?=\(\)))', text):
            if symbol.rstrip('_') not in symbols and not symbol.endswith('_'):
                wrong.append(f'{page.name}: {symbol}')
    if wrong:
        raise Failure('not there: ' + ', '.join(wrong))


def check_references(all_pages, runner, report):
    """What reference pages leave out."""
    for name, check in (
            ('tool_names_every_command_and_option',
             lambda: tool_names_everything(runner)),
            ('prose_names_what_exists',
             lambda: prose_names_what_exists(all_pages, runner))):
        report.run(name, check)


def compile_page(page, runner):
    """What a page has clang compile, and nothing else of it."""
    shell = Shell(runner.env, runner.work)
    try:
        for block in page.blocks:
            if block.verb == 'file':
                runner.save(block)
            if block.language != 'console' or block.verb not in ('', 'with-bpf'):
                continue
            for command, _ in commands(block):
                if re.search(r'\bclang ', command):
                    status, printed = shell.run(command)
                    if status:
                        raise differ(command, [], printed)
    finally:
        shell.close()
    if any(block.verb == 'bpf' for block in page.blocks):
        runner.compile_bpf(page)


def compile_all():
    """Fill the folder KVT_COMPILED, for a machine that is too slow for a compiler."""
    with tempfile.TemporaryDirectory(prefix='kvtree-docs-') as work:
        runner = Runner(work)
        for page in pages():
            if page.has_bpf:
                compile_page(page, runner)
    return 0


def main(only_bpf=False):
    if sys.argv[1:] == ['--compile']:
        return compile_all()
    if not os.path.exists(DEVICE):
        return skip_all(f'there is no {DEVICE}')
    # A shell or command that hangs must not hang the lane.
    signal.signal(signal.SIGALRM, lambda *_: sys.exit('an example hangs'))
    # Where no udev has made the node that would load it.
    if not os.path.exists('/dev/loop-control'):
        subprocess.run(['modprobe', 'loop'], check=False)
    report = Report()
    all_pages = pages()
    with tempfile.TemporaryDirectory(prefix='kvtree-docs-') as work:
        runner = Runner(work)
        runner.has_bpf = runner.prepare_bpf()
        if only_bpf:
            all_pages = bpf_pages(all_pages)
        runner.has_raid = any(page.has_raid for page in all_pages) and runner.prepare_raid()
        for page in all_pages:
            signal.alarm(5 * TIMEOUT)
            stores = runner.state()[0]
            try:
                run_page(page, runner, report)
            finally:
                if page.has_raid and runner.has_raid:
                    runner.remove_mirrors(stores)
        if runner.bwtree:
            runner.must('insmod', runner.bwtree)
        signal.alarm(0)
        if not only_bpf:
            check_references(all_pages, runner, report)
    return report.end()
