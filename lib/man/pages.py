#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only
"""Write the pages of section 3.

    pages.py DIRECTORY
    pages.py --check

There is a page for each call in kvtree.h and kvtree_uring.h, made of its comment there; one for
each kind of object, made of the comment at the head of its part of the header;
and libkvtree(3), made of the comment at the top. Their examples are the programs
in the folder "examples". With --check it only says what is missing.

kernel-doc's own pages are of section 9, and have neither errors nor examples.
"""

import os
import re
import sys
import textwrap

import example
import header
import roff

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY_HEADERS = [os.path.join(HERE, '..', name) for name in ('kvtree.h', 'kvtree_uring.h')]
INTERFACE_HEADER = os.path.join(HERE, '..', '..', 'uapi', 'linux', 'kvtree.h')
SYMBOL_MAP = os.path.join(HERE, '..', 'libkvtree.map')
EXAMPLES = os.path.join(HERE, 'examples')
MANUAL = 'kvtree Library Manual'

# Parts of the header that are about a kind of object: its page, in one line.
OBJECTS = {
    'Columns': ('kvtree_columns', 'values that are divided into columns'),
    'Operation lists': ('kvtree_ops', 'many operations in one system call'),
    'Cursors': ('kvtree_cursor', 'go through the records of a range of keys'),
    'Rings': ('kvtree_ring', 'many operations under way at once'),
}
WIDTH = 72  # of a declaration, so that a page fits a terminal of 80 columns


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


class Book:
    """All pages."""

    def __init__(self):
        self.header = header.Header([(os.path.basename(path), read(path))
                                     for path in LIBRARY_HEADERS])
        self.interface = header.interface_structures(read(INTERFACE_HEADER))
        self.versions = header.versions(read(SYMBOL_MAP))
        self.examples = example.read_all(EXAMPLES)
        sources = LIBRARY_HEADERS + [INTERFACE_HEADER] + [e.path for e in self.examples]
        self.date = roff.date(max(os.path.getmtime(path) for path in sources))
        self.names = set(self.header.functions) | {'libkvtree'}
        self.names |= {OBJECTS[section.title][0] for section in self.header.sections
                       if section.title in OBJECTS}
        self.links = {structure.name: OBJECTS[section.title][0]
                      for section in self.header.sections
                      for structure in section.structures if section.title in OBJECTS}
        # Not those that have a page of their own.
        self.links = {name: to for name, to in self.links.items() if name not in self.names}

    def pages(self):
        """Pairs of a name and the lines."""
        yield 'libkvtree', Overview(self, 'libkvtree').library()
        for section in self.header.sections:
            if section.title in OBJECTS:
                name, short = OBJECTS[section.title]
                yield name, Overview(self, name).objects(section, short)
            for function in section.functions:
                yield function.name, Call(self, function).page()

    def examples_of(self, name):
        return [e for e in self.examples if name in e.pages]


class Page:
    def __init__(self, book, name):
        self.book = book
        self.name = name
        self.text = roff.Text(book.names | set(book.links), name)

    def begin(self, short, include='kvtree.h'):
        version = roff.version_of_library()
        return ["'\\\" t",
                '.\\" SPDX-License-Identifier: LGPL-2.1-only',
                f'.\\" Made of lib/{include} and lib/man/examples by lib/man/pages.py.',
                f'.TH {self.name} 3 {self.book.date} "libkvtree {version}" "{MANUAL}"',
                '.ad l',
                '.SH NAME', rf'{self.name} \- {roff.escape(short)}',
                '.SH LIBRARY', r'kvtree library (\fIlibkvtree\fR,\~\fI\-lkvtree\fR)',
                '.SH SYNOPSIS', '.nf', rf'\fB#include <{include}>\fR']

    def examples(self):
        out = []
        for shown in self.book.examples_of(self.name):
            out += shown.roff(self.text)
        return ['.SH EXAMPLES'] + out[1:] if out else []

    def history(self, names):
        came = sorted({self.book.versions[name] for name in names
                       if name in self.book.versions})
        return ['.SH HISTORY', f'libkvtree {came[0]}.'] if came else []

    def see_also(self, names):
        pages = [(3, name) for name in sorted(set(names) - {self.name, 'libkvtree'})]
        pages += [(3, 'libkvtree'), (4, 'kvtree')]
        out = [rf'.BR \%{name} ({section}),' for section, name in pages
               if (section, name) != (3, self.name)]
        return ['.SH SEE ALSO', *out[:-1], out[-1].rstrip(',')]

    def structure(self, name):
        """A structure, its fields, and the flags that go into them."""
        known = self.book.header.structure(name)
        if not known:
            return (['.P', roff.italic('<linux/kvtree.h>') + ' declares the structure:', '.P'] +
                    roff.literal(narrow(self.book.interface[name].rstrip('\n').split('\n'))))
        out = ['.P', *self.text.paragraph(f'struct {name} describes {known.short}:'), '.P',
               *roff.literal(known.declaration.rstrip('\n').split('\n')),
               *self.tagged(known.fields)]
        return out + self.text.blocks(known.text)

    def tagged(self, pairs):
        out = []
        for name, meaning in pairs:
            flags = self.flags(meaning)
            meaning = '0, or one or more of these:' if flags else roff.sentence(meaning)
            out += ['.TP', roff.italic(name), *self.text.paragraph(meaning), *flags]
        return out

    def flags(self, meaning):
        """The flags that a text speaks of as KVTREE_SOMETHING_*."""
        prefix = re.fullmatch(r'(KVTREE_\w+_)\*', meaning)
        out = []
        for name, text in self.book.header.defines if prefix else []:
            if name.startswith(prefix[1]):
                out += ['.TP', roff.bold(name), *self.text.paragraph(roff.sentence(text))]
        return ['.RS', *out, '.RE'] if out else []

    def types(self, arguments):
        """The structures that some arguments point to."""
        found = []
        for argument in arguments:
            for name in re.findall(r'struct (\w+)', argument):
                known = name in self.book.interface or self.book.header.structure(name)
                if known and name not in found:
                    found.append(name)
        return found


def narrow(lines):
    """A declaration in which no line is too long."""
    for line in lines:
        field = re.match(r'(\s*)(\S.*?)\s*(/\* .* \*/)$', line)
        if len(line.expandtabs(8)) <= WIDTH:
            yield line
        elif field:
            # Put the comment before its field.
            yield field[1] + field[3]
            yield field[1] + field[2]
        else:
            yield from textwrap.wrap(line, WIDTH, subsequent_indent=' ' * 8)


class Call(Page):
    """The page of a call."""

    def __init__(self, book, function):
        super().__init__(book, function.name)
        self.function = function

    def page(self):
        function = self.function
        return [*self.begin(re.sub(r'; see .*', '', function.short), function.section.include),
                '.P', *self.declaration(), '.fi',
                '.SH DESCRIPTION', *self.description(),
                '.SH RETURN VALUE', *self.return_value(),
                *self.errors(), *self.attributes(), *self.history([self.name]),
                *self.notes(), *self.examples(),
                *self.see_also(self.relatives())]

    def declaration(self):
        """The prototype, broken between its arguments."""
        function = self.function
        first = f'{function.type}{function.name}('
        whole = first + ', '.join(argument.replace(' ', '\0')
                                  for argument in function.arguments or ['void']) + ');'
        lines = textwrap.wrap(whole, WIDTH, subsequent_indent=' ' * len(first))
        if any(len(line) > WIDTH for line in lines):
            lines = textwrap.wrap(whole, WIDTH, subsequent_indent=' ' * 8)
        names = [re.search(r'(\w+)$', argument)[1] for argument in function.arguments]
        out = []
        for line in lines:
            line = re.sub(r'\b(\w+)(?=[,)])',
                          lambda found: rf'\fI{found[1]}\fB' if found[1] in names else found[1],
                          roff.escape(line.replace('\0', ' ')))
            out.append(rf'\fB{line}\fR')
        return out

    def description(self):
        function = self.function
        out = self.text.paragraph(roff.sentence(function.short).replace('; see ', ': see '))
        out += self.tagged([(name, self.inherited(name, meaning))
                            for name, meaning in function.parameters])
        out += self.text.blocks(function.text)
        for name in self.types([function.type, *function.arguments]):
            out += self.structure(name)
        return out

    def inherited(self, name, meaning):
        """The text of another call for the same argument, if this one refers to it."""
        found = re.fullmatch(r'as for (\w+)\(\)', meaning)
        if not found:
            return meaning
        return dict(self.book.header.functions[found[1]].parameters)[name]

    def returned(self):
        """The function that this one refers to for its results, and their text."""
        text = ' '.join(self.function.returns).strip()
        found = re.fullmatch(r'as (kvtree_\w+)\(\)', text)
        return self.book.header.functions[found[1]] if found else self.function

    def return_value(self):
        function = self.returned()
        if not function.returns:
            return ['None.']
        lines = [line for kind, block in roff.split(function.returns) for line in block
                 if kind == 'text']
        text = ' '.join(lines)
        short = re.match(r'(.*?)(?:,? or(?: a negative errno(?: value)?| (?:-E\w+(?:, )?)+)?)?$',
                         text)
        if not function.returns_errors():
            return self.text.paragraph(roff.sentence(text))
        if re.search(r'negative errno\b.+', text):
            return self.text.paragraph(roff.sentence(text))
        success = '0' if short[1] == '0' else short[1]
        return self.text.paragraph(f'On success {success}. On failure a negative errno '
                                   'value: see ERRORS. The variable `errno` is not set.')

    def errors(self):
        if not self.function.returns_errors():
            return []
        own = self.own_errors()
        named = {name for names, _ in own for name in names}
        more = self.errors_of_changes() if self.returned().is_change() else []
        general = [(names, text) for names, text in self.general_errors()
                   if not named & set(names)]
        out = self.text.errors(own + more)
        if out and general:
            out += ['.P', 'And those that any call may return:']
        return ['.SH ERRORS', *out, *self.text.errors(general), *self.errors_of_operation()]

    def own_errors(self):
        """Those that the comment lists, or only names."""
        function = self.returned()
        found = header.parse_errors(function.returns)
        for name in re.findall(r'\bor (-E\w+)', ' '.join(function.returns)):
            found += [(names, text) for other in function.section.functions
                      for names, text in header.parse_errors(other.returns)
                      if name in names][:1]
        return found

    def errors_of_changes(self):
        return header.parse_errors(self.function.section.text) or [
            error for section in self.book.header.sections
            for error in header.parse_errors(section.text)]

    def general_errors(self):
        if self.function.inline:
            return []
        found = header.parse_errors(self.book.header.introduction)
        # It is said that there is no other.
        only = re.fullmatch(r'0 or (-E\w+)', ' '.join(self.function.returns).strip())
        if only and any(only[1] in names for names, _ in found):
            return [(names, text) for names, text in found if only[1] in names]
        # Without a store the store's errors cannot come.
        if not self.function.takes(r'.*struct kvtree(_cursor|_ring)? \*.*'):
            found = [(names, text) for names, text in found
                     if not {'-ESTALE', '-EACCES'} & set(names)]
        return found

    def errors_of_operation(self):
        """Of an operation that is executed later."""
        own = re.fullmatch(r'kvtree_(?:ops|ring)_(\w+)', self.name)
        same = self.book.header.functions.get(f'kvtree_{own[1]}') if own else None
        if not same:
            return []
        where = ('its event' if 'ring' in self.name else
                 'the list: kvtree_ops_result() returns it')
        return ['.P', *self.text.paragraph(
            f'These are errors of the call itself. The outcome of the operation is in {where}. '
            f'Its errors there are those of {same.name}().')]

    def attributes(self):
        """Whether threads may call it at the same time, as the header says of handles."""
        handle = None
        for argument in self.function.arguments:
            found = re.match(r'(?:const )?struct kvtree_(?:ops|cursor|ring) \*(\w+)$', argument)
            found = found or re.match(r'struct kvtree \*(\w+)$', argument)
            handle = handle or (found and found[1])
        value = f'MT-Unsafe race:{handle}' if handle else 'MT-Safe'
        out = ['.SH ATTRIBUTES', 'For the terms see', '.BR attributes (7).', '.P',
               '.TS', 'allbox;', 'lb lb lb', 'l l l.', 'Interface\tAttribute\tValue',
               f'{roff.bold(self.name)}()\tThread safety\t{roff.escape_literal(value)}', '.TE']
        if handle:
            out += ['.P', *self.text.paragraph(
                f'One thread at a time may use @{handle}; different ones are independent.')]
        else:
            out += ['.P', 'Any number of threads may call it at the same time.']
        return out

    def notes(self):
        section = self.function.section
        if section.title in OBJECTS:
            return []
        lines = [line for kind, block in roff.split(section.text) if kind == 'text'
                 for line in block + [''] if not block[0].startswith('Errors')]
        return ['.SH NOTES', *self.text.blocks(lines)[1:]] if lines else []

    def relatives(self):
        section = self.function.section
        names = [function.name for function in section.functions]
        if section.title in OBJECTS:
            names.append(OBJECTS[section.title][0])
        text = ' '.join([self.function.short, *self.function.text, *self.function.returns,
                         *(meaning for _, meaning in self.function.parameters)])
        return names + [name for name in re.findall(r'(kvtree_\w+)\(\)', text)
                        if name in self.book.names]


class Overview(Page):
    """A page about more than one call."""

    def library(self):
        paragraphs = list(roff.split(self.book.header.introduction))
        short = re.match(r'libkvtree - (.*)', paragraphs[0][1][0])
        lines = self.book.header.introduction
        heading = next(at for at, line in enumerate(lines) if line.startswith('---')) - 1
        # The program at the top is among the examples.
        link = [line for kind, block in paragraphs if kind == 'text' for line in block
                if line.startswith('Compile and link')]
        out = [*self.begin(re.sub(r',.*', '', short[1])), '.fi',
               '.SH DESCRIPTION',
               *self.text.paragraph(' '.join(paragraphs[0][1]).partition(' - ')[0] + ' is the ' +
                                    ' '.join(paragraphs[0][1]).partition(' - ')[2]),
               '.P', *self.text.paragraph(' '.join(link)),
               '.SH CALLS']
        for section in self.book.header.sections:
            out += ['.SS ' + section.title, *self.list(section)]
        out += ['.SH ' + lines[heading].upper(), *self.named(lines[heading + 2:])]
        return [*out, *self.history(self.book.header.functions), *self.examples(),
                *self.see_also(name for name, _ in OBJECTS.values()
                               if name in self.book.names)]

    def named(self, lines):
        """Paragraphs that begin with "Errors:" and the like, each under its name."""
        out = []
        for kind, block in roff.split(lines):
            found = re.match(r'([A-Z]\w+): (.*)', block[0]) if kind == 'text' else None
            if found:
                out += ['.SS ' + found[1]]
                block = [found[2][:1].upper() + found[2][1:], *block[1:]]
            out += self.text.blocks(block)
        return out

    def objects(self, section, short):
        out = [*self.begin(short), '.fi', '.SH DESCRIPTION', *self.text.blocks(section.text)[1:]]
        out += ['.SS Calls', *self.list(section)]
        for structure in section.structures:
            out += self.declared(structure)
        names = [function.name for function in section.functions]
        return [*out, *self.history(names), *self.examples(), *self.see_also(names)]

    def declared(self, structure):
        title = structure.name if structure.declaration.startswith('typedef') else \
            f'struct {structure.name}'
        if structure.declaration.startswith('typedef'):
            out = ['.P', *self.text.paragraph(roff.sentence(structure.short)), '.P',
                   *roff.literal(narrow(structure.declaration.rstrip('\n').split('\n'))),
                   *self.tagged(structure.fields), *self.text.blocks(structure.text)]
        else:
            out = self.structure(structure.name)
        return [f'.SS {title}', *out[1:]]

    def list(self, section):
        out = []
        for function in section.functions:
            out += ['.TP', roff.reference(function.name, 3),
                    *self.text.paragraph(re.sub(r'; see .*', '', function.short))]
        return out


def check(book):
    """What no page may lack. Returns what is wrong."""
    wrong = []
    for shown in book.examples:
        for name in shown.pages:
            if name not in book.names:
                wrong.append(f'{shown.path}: there is no page {name}(3)')
            elif name in book.header.functions and not shown.calls(name):
                wrong.append(f'{shown.path}: does not call {name}()')
    for name in sorted(book.versions):
        if name not in book.names:
            wrong.append(f'{SYMBOL_MAP}: {name} is not described in kvtree.h')
        elif not book.examples_of(name):
            wrong.append(f'{EXAMPLES}: none is shown in {name}(3)')
    return wrong


def write(book, folder):
    """All pages, in place of the present ones."""
    pages = list(book.pages())
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith('.3'):
            os.unlink(os.path.join(folder, name))
    for name, lines in pages:
        with open(os.path.join(folder, f'{name}.3'), 'w', encoding='utf-8') as f:
            f.write('\n'.join(roff.tidy(lines)) + '\n')
    for name, to in book.links.items():
        os.symlink(f'{to}.3', os.path.join(folder, f'{name}.3'))


def main():
    if len(sys.argv) != 2:
        sys.exit('usage: pages.py DIRECTORY | --check')
    book = Book()
    if sys.argv[1] == '--check':
        sys.exit('\n'.join(check(book)) or 0)
    write(book, sys.argv[1])


if __name__ == '__main__':
    main()
