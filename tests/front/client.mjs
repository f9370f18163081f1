// A caller that has nothing of ours but the proto: one edit judged through the front door.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [proto, protos, modules, target, ca, token, before, after] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const definition = loader.loadSync(proto, {
  includeDirs: [protos], keepCase: true, enums: String, longs: Number, oneofs: true,
});
const { JudgeService } = grpc.loadPackageDefinition(definition).editjudge.v1;
const client = new JudgeService(target, grpc.credentials.createSsl(readFileSync(ca)));
const metadata = new grpc.Metadata();
if (token) metadata.set("authorization", `Bearer ${token}`);
const edit = {
  instruction: "make it red",
  sources: [{ data: readFileSync(before) }],
  edited: { data: readFileSync(after) },
};

const ask = (method, request) =>
  new Promise((resolve) =>
    client[method](request, metadata, { deadline: Date.now() + 60_000 }, (error, reply) =>
      resolve(error ? { code: grpc.status[error.code], words: error.details } : { reply }),
    ),
  );

const stream = (requests) =>
  new Promise((resolve) => {
    const answers = [];
    const call = client.ScoreStream(metadata, { deadline: Date.now() + 60_000 });
    call.on("data", (answer) => answers.push(answer));
    call.on("error", (error) => resolve({ code: grpc.status[error.code] }));
    call.on("end", () => resolve({ answers }));
    for (const request of requests) call.write({ request });
    call.end();
  });

const dimensions = ["core.psnr.*"];
console.log(JSON.stringify({
  score: await ask("Score", { request_id: "a", edit, dimensions }),
  misspelt: await ask("Score", { edit, dimensions: ["core.pnsr.*"] }),
  listed: await ask("ListDimensions", { patterns: dimensions }),
  panel: await ask("GetPanel", {}),
  stream: await stream([
    { request_id: "b", edit, dimensions },
    { request_id: "c", edit: { ...edit, edited: { data: Buffer.from("no") } }, dimensions },
  ]),
}));
client.close();
