# SPDX-License-Identifier: GPL-2.0
"""redis-py, as it is, with kvtree-server. Every test begins and ends with an empty database 0.

KVT_SERVER_SOCKET is where the server listens, for root; its databases 0 and 1 are for
these tests alone. KVT_SERVER_PROGRAM is the program, and KVT_SERVER_STORE the name of database
0's store: without them Redis' own server may listen there, and tests of differences are
skipped.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading

import pytest
import redis

SOCKET = os.environ['KVT_SERVER_SOCKET']
PROGRAM = os.environ.get('KVT_SERVER_PROGRAM')
STORE = os.environ.get('KVT_SERVER_STORE')
NOBODY = 65534

own_server = pytest.mark.skipif(not PROGRAM or not STORE, reason='no KVT_SERVER_PROGRAM')


@pytest.fixture(params=[2, 3], ids=['resp2', 'resp3'])
def protocol(request):
    return request.param


@pytest.fixture
def client(protocol):
    """A client of an empty database, with bytes."""
    with redis.Redis(unix_socket_path=SOCKET, protocol=protocol, socket_timeout=60) as client:
        client.flushdb()
        yield client
        client.flushdb()


@pytest.fixture
def text(protocol):
    """The same with str."""
    with redis.Redis(unix_socket_path=SOCKET, protocol=protocol, socket_timeout=60,
                     decode_responses=True) as client:
        client.flushdb()
        yield client
        client.flushdb()


@contextlib.contextmanager
def as_user(uid, gid, groups):
    """Connect as somebody else: the server gets the peer's credentials from the kernel."""
    mine = os.getgroups()
    os.setgroups(groups)
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(mine)


def test_strings_are_set_and_got(client):
    assert client.get('key') is None
    assert client.set('key', b'\0\r\n\xff') is True
    assert client.get('key') == b'\0\r\n\xff'
    assert client.strlen('key') == 4
    assert client.set('empty', b'') is True
    assert client.get('empty') == b''
    assert client.exists('key', 'empty', 'none', 'key') == 3
    assert client.type('key') == b'string'
    assert client.type('none') == b'none'


def test_keys_are_any_bytes(client):
    keys = [bytes([n]) for n in range(256)] + [b'k' * 4096, b'a\r\nb']
    assert client.mset({key: key[:100] for key in keys}) is True
    assert client.mget(keys) == [key[:100] for key in keys]
    assert sorted(client.scan_iter()) == sorted(keys)


def test_set_obeys_its_conditions(client):
    assert client.set('key', 'no', xx=True) is None
    assert client.get('key') is None
    assert client.set('key', 'one', nx=True) is True
    assert client.set('key', 'two', nx=True) is None
    assert client.set('key', 'three', xx=True, get=True) == b'one'
    assert client.set('key', 'four', keepttl=True) is True
    assert client.set('other', 'value', get=True) is None
    assert client.setnx('key', 'no') is False
    assert client.setnx('new', 'yes') is True
    assert client.mget('key', 'other', 'new') == [b'four', b'value', b'yes']


def test_get_and_change_is_one_step(client):
    assert client.getset('key', 'one') is None
    assert client.getset('key', 'two') == b'one'
    assert client.getdel('key') == b'two'
    assert client.getdel('key') is None
    assert client.exists('key') == 0


def test_parts_of_strings(client):
    assert client.append('key', 'Hello') == 5
    assert client.append('key', ' World') == 11
    assert client.getrange('key', 0, 4) == b'Hello'
    assert client.getrange('key', -5, -1) == b'World'
    assert client.getrange('key', 5, 2) == b''
    assert client.getrange('key', 0, 1000) == b'Hello World'
    assert client.substr('key', 0, 4) == b'Hello'
    assert client.setrange('key', 6, 'Redis') == 11
    assert client.setrange('gap', 3, 'x') == 4
    assert client.mget('key', 'gap') == [b'Hello Redis', b'\0\0\0x']
    with pytest.raises(redis.ResponseError, match='offset is out of range'):
        client.setrange('key', -1, 'x')


def test_numbers_count(client):
    assert client.incr('number') == 1
    assert client.incr('number', 41) == 42
    assert client.decr('number') == 41
    assert client.decr('number', 141) == -100
    assert client.get('number') == b'-100'
    client.set('number', 2**63 - 1)
    with pytest.raises(redis.ResponseError, match='overflow'):
        client.incr('number')
    assert client.get('number') == b'9223372036854775807'
    for wrong in ('x', '1.5', ' 1', '', '9223372036854775808'):
        client.set('number', wrong)
        with pytest.raises(redis.ResponseError, match='not an integer'):
            client.incr('number')


@own_server
def test_values_have_an_end(client):
    long = os.urandom(1 << 20)
    assert client.set('long', long) is True
    assert client.get('long') == long
    with pytest.raises(redis.ResponseError):
        client.set('long', long + b'x')
    with pytest.raises(redis.ResponseError):
        client.append('long', b'x')
    with pytest.raises(redis.ResponseError):
        client.set('k' * 4097, 'value')
    assert client.get('long') == long


def test_del_counts_what_was_there(client):
    client.mset({'one': 1, 'two': 2, 'three': 3, 'four': 4})
    assert client.delete('one', 'none', 'two', 'two') == 2
    assert client.unlink('three', 'none') == 1
    assert client.dbsize() == 1
    assert client.flushdb() is True
    assert client.dbsize() == 0


def test_hashes_have_fields(text):
    assert text.hset('hash', 'one', '1') == 1
    assert text.hset('hash', mapping={'one': 'I', 'two': 'II', 'empty': ''}) == 2
    assert text.hget('hash', 'one') == 'I'
    assert text.hget('hash', 'none') is None
    assert text.hget('none', 'one') is None
    assert text.hmget('hash', 'two', 'none', 'one') == ['II', None, 'I']
    assert text.hgetall('hash') == {'one': 'I', 'two': 'II', 'empty': ''}
    assert text.hgetall('none') == {}
    assert sorted(text.hkeys('hash')) == ['empty', 'one', 'two']
    assert sorted(text.hvals('hash')) == ['', 'I', 'II']
    assert text.hlen('hash') == 3
    assert text.hstrlen('hash', 'two') == 2
    assert text.hexists('hash', 'one') is True
    assert text.hexists('hash', 'none') is False
    assert text.hsetnx('hash', 'one', 'no') == 0
    assert text.hsetnx('hash', 'new', 'yes') == 1
    assert text.hincrby('hash', 'count', 5) == 5
    assert text.hincrby('hash', 'count', -7) == -2
    with pytest.raises(redis.ResponseError, match='not an integer'):
        text.hincrby('hash', 'one', 1)
    assert text.hdel('hash', 'one', 'none', 'two', 'count') == 3
    assert text.hgetall('hash') == {'empty': '', 'new': 'yes'}
    assert text.type('hash') == 'hash'


def test_a_hash_without_fields_is_gone(text):
    text.hset('hash', mapping={'one': '1', 'two': '2'})
    assert text.hdel('hash', 'one', 'two') == 2
    assert text.exists('hash') == 0
    assert text.dbsize() == 0
    assert text.set('hash', 'a string') is True


def test_a_string_is_no_hash(client):
    client.set('string', 'value')
    client.hset('hash', 'field', 'value')
    for wrong in (lambda: client.hget('string', 'field'),
                  lambda: client.hset('string', 'field', 'value'),
                  lambda: client.hgetall('string'), lambda: client.get('hash'),
                  lambda: client.incr('hash'), lambda: client.append('hash', 'x'),
                  lambda: client.getset('hash', 'x')):
        with pytest.raises(redis.ResponseError, match='WRONGTYPE'):
            wrong()
    assert client.mget('string', 'hash') == [b'value', None]
    assert client.set('hash', 'now a string') is True
    assert client.get('hash') == b'now a string'


@own_server
def test_a_hash_has_255_fields_at_most(text):
    fields = {f'field {n}': f'value {n}' for n in range(255)}
    assert text.hset('hash', mapping=fields) == 255
    assert text.hgetall('hash') == fields
    with pytest.raises(redis.ResponseError, match='255'):
        text.hset('hash', 'one more', 'x')
    assert text.hset('hash', 'field 7', 'new') == 0
    assert text.hdel('hash', 'field 8') == 1
    assert text.hset('hash', 'one more', 'x') == 1
    fields['field 7'] = 'new'
    fields['one more'] = fields.pop('field 8')
    fields['one more'] = 'x'
    assert text.hgetall('hash') == fields


def test_scan_finds_each_key_once(client):
    wanted = {b'user:%d' % n for n in range(3000)}
    with client.pipeline(transaction=False) as pipe:
        for key in wanted:
            pipe.set(key, 'x')
            pipe.hset(b'h' + key, 'field', 'x')
        assert all(pipe.execute())
    found = list(client.scan_iter(match='user:*', count=100))
    assert len(found) == len(wanted)
    assert set(found) == wanted
    assert set(client.scan_iter(match='*:29?[0-4]')) == {
        p + b'user:29%d%d' % (tens, ones) for p in (b'', b'h')
        for tens in range(10) for ones in range(5)}
    assert set(client.scan_iter(_type='HASH')) == {b'h' + key for key in wanted}
    assert set(client.scan_iter(_type='STRING')) == wanted
    assert list(client.scan_iter(_type='LIST')) == []
    assert list(client.scan_iter(match='nobody:*')) == []


@own_server
def test_scan_is_in_order(client):
    keys = [b'%04d' % n for n in range(1000)]
    client.mset(dict.fromkeys(reversed(keys), 'x'))
    assert list(client.scan_iter(count=7)) == keys
    with pytest.raises(redis.ResponseError, match='cursor'):
        client.scan(cursor=2**62)


@own_server
def test_ranges_have_both_ends(client):
    client.mset({key: key.upper() for key in 'abcde'})
    client.hset('bb', 'field', 'x')

    def keys(*args):
        return client.execute_command('KV.RANGE', *args)
    assert keys('-', '+') == [b'a', b'b', b'bb', b'c', b'd', b'e']
    assert keys('[b', '[d') == [b'b', b'bb', b'c', b'd']
    assert keys('(b', '(d') == [b'bb', b'c']
    assert keys('(x', '+') == []
    assert keys('[d', '[b') == []
    assert keys('(a', '+', 'LIMIT', 2) == [b'b', b'bb']
    assert keys('(bb', '+', 'LIMIT', 2, 'WITHVALUES') == [b'c', b'C', b'd', b'D']
    assert keys('[bb', '[bb', 'WITHVALUES') == [b'bb', None]
    with pytest.raises(redis.ResponseError):
        keys('a', '+')


@own_server
def test_a_range_is_read_in_parts(client):
    wanted = [b'%05d' % n for n in range(2500)]
    client.mset(dict.fromkeys(wanted, 'x'))
    found, begin = [], '-'
    while part := client.execute_command('KV.RANGE', begin, '+'):
        assert len(part) <= 1000
        found += part
        begin = b'(' + part[-1]
    assert found == wanted
    # Long values fill a reply sooner.
    client.flushdb()
    for key in wanted[:8]:
        client.set(key, key * (200 << 10))
    found, begin = {}, '-'
    while part := client.execute_command('KV.RANGE', begin, '+', 'WITHVALUES'):
        assert sum(map(len, part)) <= 6 << 20
        found |= dict(zip(part[::2], part[1::2], strict=True))
        begin = b'(' + part[-2]
    assert found == {key: key * (200 << 10) for key in wanted[:8]}


def test_a_pipeline_answers_in_order(client):
    with client.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.set(f'key {n}', n).get(f'key {n}').incr(f'key {n}').get(f'key {n}')
            if n % 100 == 50:
                pipe.hset('hash', f'field {n}', n).delete(f'key {n - 1}')
        answers = pipe.execute()
    wanted = []
    for n in range(1000):
        wanted += [True, b'%d' % n, n + 1, b'%d' % (n + 1)]
        if n % 100 == 50:
            wanted += [1, 1]
    assert answers == wanted


def test_an_error_in_a_pipeline_is_one_answer(client):
    client.hset('hash', 'field', 'value')
    pipe = client.pipeline(transaction=False)
    pipe.set('one', 1).get('hash').incr('one').execute_command('NOTHING').get('one')
    answers = pipe.execute(raise_on_error=False)
    assert answers[0] is True
    assert isinstance(answers[1], redis.ResponseError)
    assert answers[2] == 2
    assert isinstance(answers[3], redis.ResponseError)
    assert answers[4] == b'2'


@own_server
def test_transactions_are_refused(client):
    with pytest.raises(redis.ResponseError, match=r'kvtree-server has no (MULTI|EXEC): '):
        client.pipeline(transaction=True).set('key', 'value').get('key').execute()
    assert client.ping() is True


@own_server
def test_what_does_not_exist_is_refused_with_the_reason(client):
    for command in ('EXPIRE key 10', 'LPUSH key x', 'SADD key x', 'ZADD key 1 x',
                    'XADD key * a b', 'PUBLISH channel x', 'EVAL x 0', 'SETEX key 10 x',
                    'RENAME a b'):
        args = command.split()
        with pytest.raises(redis.ResponseError, match=f'kvtree-server has no {args[0]}: '):
            client.execute_command(*args)
    with pytest.raises(redis.ResponseError):
        client.set('key', 'value', ex=10)
    assert client.exists('key') == 0


def test_a_connection_reports_what_it_is(text):
    assert text.ping() is True
    assert text.echo('hello') == 'hello'
    assert text.client_setname('somebody') is True
    assert text.client_getname() == 'somebody'
    assert text.client_id() > 0
    assert text.client_info()['name'] == 'somebody'
    assert 'somebody' in [client['name'] for client in text.client_list()]
    assert len(text.time()) == 2
    assert text.command_count() > 40
    assert isinstance(text.config_get('maxmemory'), dict)


def test_info_is_read(text):
    info = text.info()
    assert 'redis_version' in info
    assert info['connected_clients'] >= 1
    assert text.info('server')['redis_version'] == info['redis_version']


def test_databases_are_apart(client, protocol):
    with redis.Redis(unix_socket_path=SOCKET, db=1, protocol=protocol) as other:
        other.set('key', 'other')
        client.set('key', 'first')
        assert other.get('key') == b'other'
        assert client.flushdb() is True
        assert other.get('key') == b'other'
        other.flushdb()
    with redis.Redis(unix_socket_path=SOCKET, db=99, protocol=protocol) as none, \
            pytest.raises(redis.ResponseError):
        none.get('key')


def test_urls_name_sockets(client, protocol):
    client.set('key', 'value')
    url = f'unix://{SOCKET}?db=0&protocol={protocol}&decode_responses=true'
    with redis.Redis.from_url(url) as other:
        assert other.get('key') == 'value'


def test_threads_lose_no_increment(client, protocol):
    threads, each = 8, 50
    pool = redis.ConnectionPool(connection_class=redis.UnixDomainSocketConnection, path=SOCKET,
                                protocol=protocol, socket_timeout=60)
    shared = redis.Redis(connection_pool=pool)
    failed = []

    def count():
        try:
            for _ in range(each):
                shared.incr('string')
                shared.hincrby('hash', 'field', 2)
                shared.append('length', 'x')
        except redis.RedisError as error:
            failed.append(error)
    running = [threading.Thread(target=count) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    pool.disconnect()
    assert failed == []
    assert client.get('string') == b'%d' % (threads * each)
    assert client.hget('hash', 'field') == b'%d' % (2 * threads * each)
    assert client.strlen('length') == threads * each


@contextlib.contextmanager
def server(*args):
    """A server of our own: the process, and its socket."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(SOCKET)) as folder:
        path = os.path.join(folder, 'own.sock')
        os.chmod(folder, 0o755)
        with subprocess.Popen([PROGRAM, '--unix', path, *args], stderr=subprocess.PIPE,
                              text=True) as process:
            try:
                # To its end if it does not come up.
                said = []
                for line in process.stderr:
                    said.append(line)
                    if 'ready on' in line:
                        break
                else:
                    pytest.fail(''.join(said))
                yield process, path
            finally:
                if process.poll() is None:
                    process.kill()


@own_server
def test_a_server_that_stops_answers_first(protocol):
    with server(STORE) as (process, path):
        client = redis.Redis(unix_socket_path=path, protocol=protocol, socket_timeout=60)
        assert client.set('key', 'value') is True
        answered = 0

        def count():
            nonlocal answered
            try:
                with redis.Redis(unix_socket_path=path, socket_timeout=60) as other:
                    while other.incr('count'):
                        answered += 1
                        busy.set()
            except redis.ConnectionError:
                busy.set()
        busy = threading.Event()
        thread = threading.Thread(target=count)
        thread.start()
        assert busy.wait(60)
        process.send_signal(signal.SIGTERM)
        thread.join()
        assert process.wait(60) == 0
        with pytest.raises(redis.ConnectionError):
            client.get('key')
        client.close()
    # Whatever it did, it has said so: but for the one that it was asked in the end.
    with redis.Redis(unix_socket_path=SOCKET) as client:
        assert answered > 0
        assert int(client.get('count')) == answered
        client.flushdb()


def test_a_client_connects_again(protocol):
    with redis.Redis(unix_socket_path=SOCKET, protocol=protocol) as client:
        client.set('key', 'value')
        own = client.client_id()
        client.connection_pool.disconnect()
        assert client.get('key') == b'value'
        assert client.client_id() != own
        client.flushdb()


@own_server
@pytest.mark.parametrize(('mode', 'uid', 'gid', 'groups', 'may'), [
    ('0600', NOBODY, NOBODY, [], ''),
    ('0604', NOBODY, NOBODY, [], 'r'),
    ('0602', NOBODY, NOBODY, [], 'w'),
    ('0606', NOBODY, NOBODY, [], 'rw'),
    ('0660', NOBODY, NOBODY, [], ''),
    ('0660', NOBODY, 4242, [], 'rw'),
    ('0640', NOBODY, NOBODY, [4241, 4242], 'r'),
    # The first that is about somebody counts.
    ('0606', NOBODY, 4242, [], ''),
    ('0066', 4243, NOBODY, [], ''),
    ('0600', 4243, NOBODY, [], 'rw'),
    ('0000', 0, 0, [], 'rw'),
])
def test_rights_are_those_of_the_store(mode, uid, gid, groups, may):
    name = f'{STORE}-rights'
    subprocess.run(['kvtree', 'store', 'create', name, '--owner', '4243', '--group', '4242',
                    '--mode', mode], check=True)
    try:
        with server(name) as (_, path):
            with redis.Redis(unix_socket_path=path) as root:
                root.set('key', 'value')
            with as_user(uid, gid, groups):
                other = redis.Redis(unix_socket_path=path, single_connection_client=True)
            calls = {'r': [lambda: other.get('key'), lambda: other.exists('key'),
                           lambda: list(other.scan_iter())],
                     'w': [lambda: other.set('key', 'new'), lambda: other.delete('key')],
                     'rw': [lambda: other.incr('count'), lambda: other.hset('hash', 'f', 'v')]}
            for needs, group in calls.items():
                for call in group:
                    if all(right in may for right in needs):
                        call()
                    else:
                        with pytest.raises(redis.exceptions.NoPermissionError):
                            call()
            other.close()
    finally:
        subprocess.run(['kvtree', 'store', 'destroy', name], check=True)
