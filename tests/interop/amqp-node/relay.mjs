// A relay in front of the broker whose connections can be cut, and what the three programs share.
import net from "node:net";
import { randomBytes } from "node:crypto";

export const [host, port] = (() => {
  const at = process.env.FRAMEGATE_AMQP.lastIndexOf(":");
  return [process.env.FRAMEGATE_AMQP.slice(0, at), Number(process.env.FRAMEGATE_AMQP.slice(at + 1))];
})();
export const url = `amqp://guest:guest@${host}:${port}/%2F`;
export const name = (what = "q") => `${what}-${randomBytes(5).toString("hex")}`;
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export async function until(what, seconds = 10) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await pause(10)) {
    const value = await what();
    if (value) return value;
  }
  throw new Error(`did not come in ${seconds} s: ${what}`);
}

export async function relay() {
  const sockets = new Set();
  const server = net.createServer((near) => {
    const far = net.connect(port, host);
    for (const [one, other] of [[near, far], [far, near]]) {
      sockets.add(one);
      one.on("error", () => {});
      one.on("close", () => { sockets.delete(one); other.destroy(); });
      one.pipe(other);
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const cut = () => { for (const socket of sockets) socket.resetAndDestroy(); };
  return {
    url: `amqp://guest:guest@127.0.0.1:${server.address().port}`, port: server.address().port, cut,
    close: () => { server.close(); cut(); },
  };
}
