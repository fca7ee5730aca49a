"""Header tables byte for byte, with every type letter; written by hand, because no client sends or keeps them all."""
import socket, struct
from checks import HOST, PORT, check, equal


def short(text):
    return bytes([len(text)]) + text


def frame(kind, channel, payload):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


class Wire:
    def __init__(self):
        self.socket = socket.create_connection((HOST, PORT), timeout=10)
        self.file = self.socket.makefile("rb")
        self.socket.sendall(b"AMQP\0\0\x09\x01")
        self.expect(10, 10)
        self.method(0, 10, 11, struct.pack(">I", 0) + short(b"PLAIN") + struct.pack(">I", 12) + b"\0guest\0guest"
                    + short(b"en_US"))
        self.expect(10, 30)
        self.method(0, 10, 31, struct.pack(">HIH", 2047, 131072, 0))
        self.method(0, 10, 40, short(b"/") + b"\0\0")
        self.expect(10, 41)
        self.method(1, 20, 10, b"\0")
        self.expect(20, 11)

    def method(self, channel, class_id, method_id, arguments):
        self.socket.sendall(frame(1, channel, struct.pack(">HH", class_id, method_id) + arguments))

    def read(self):
        kind, channel, size = struct.unpack(">BHI", self.file.read(7))
        payload = self.file.read(size)
        equal(self.file.read(1), b"\xce", "end of a frame")
        return kind, channel, payload

    def expect(self, class_id, method_id):
        kind, _, payload = self.read()
        equal((kind, *struct.unpack(">HH", payload[:4])), (1, class_id, method_id), f"answer {payload!r}")
        return payload[4:]

    def queue(self):
        self.method(1, 50, 10, b"\0\0" + short(b"") + b"\x04" + struct.pack(">I", 0))
        answer = self.expect(50, 11)
        return answer[1:1 + answer[0]]

    def publish(self, key, header, body):
        self.method(1, 60, 40, b"\0\0" + short(b"") + short(key) + b"\0")
        self.socket.sendall(frame(2, 1, struct.pack(">HHQ", 60, 0, len(body)) + header) + frame(3, 1, body))

    def get(self, queue):
        self.method(1, 60, 70, b"\0\0" + short(queue) + b"\1")
        self.expect(60, 71)
        kind, _, header = self.read()
        equal(kind, 2)
        equal(self.read()[2], b"body")
        return header[12:]


def entries():
    nested = short(b"z") + b"t\1" + short(b"y") + b"V"
    array = b"I" + struct.pack(">i", -5) + b"S" + struct.pack(">I", 3) + b"abc" + b"F" + struct.pack(">I", len(nested)) + nested
    for letter, value in [
            (b"t", b"\1"), (b"b", b"\x80"), (b"B", b"\xff"), (b"s", struct.pack(">h", -3)), (b"u", struct.pack(">H", 65535)),
            (b"I", struct.pack(">i", -7)), (b"i", struct.pack(">I", 4294967295)), (b"l", struct.pack(">q", -9)),
            (b"f", struct.pack(">f", 1.5)), (b"d", struct.pack(">d", -2.25)), (b"D", b"\2" + struct.pack(">i", 125)),
            (b"S", struct.pack(">I", 4) + b"\xff\0ab"), (b"A", struct.pack(">I", len(array)) + array),
            (b"T", struct.pack(">Q", 1700000000)), (b"F", struct.pack(">I", len(nested)) + nested), (b"V", b""),
            (b"x", struct.pack(">I", 2) + b"\0\x80")]:
        yield letter, value


def round_trip(table, flags=0x2000, rest=b""):
    wire = Wire()
    queue = wire.queue()
    header = struct.pack(">H", flags) + struct.pack(">I", len(table)) + table + rest
    wire.publish(queue, header, b"body")
    equal(wire.get(queue).hex(), header.hex(), "the properties")
    wire.socket.close()


@check
def each_type_letter_comes_back():
    for letter, value in entries():
        round_trip(short(b"k") + letter + value)


@check
def all_type_letters_come_back_in_their_order():
    round_trip(b"".join(short(b"k" + letter) + letter + value for letter, value in reversed(list(entries()))))


@check
def properties_of_a_persistent_message_come_back():
    round_trip(short(b"b") + b"b\x01", flags=0x2000 | 0x1000 | 0x0800, rest=b"\2\x05")
    round_trip(b"", flags=0x2000 | 0x1000, rest=b"\1")
