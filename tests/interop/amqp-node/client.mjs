// Three published clients of Node.js, one after the other.
import { finish } from "./checks.mjs";
await import("./amqplib.mjs");
await import("./manager.mjs");
await import("./rascal.mjs");
finish();
