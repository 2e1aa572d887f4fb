// Shows a mesh of 100 jobs at 6 sites in the page's own modules, from what `/live` sends: everything, then `rounds`
// changes in which every job and every sample is another. Returns what was drawn, how long that took for each change,
// and the longest task that each change gave the browser, in ms; tasks of less than 50 ms count as none.
async rounds => {
    const [{ events }, { MeshModel }, { MeshView }] = await Promise.all(
        ["live", "mesh_model", "mesh"].map(name => import(`/page/${name}.js`)));
    const [JOBS, SITES, PROCESSES, PAUSE_MS] = [100, 6, ["agent", "engine", "nats"], 100];
    const METRICS = ["job.event_rate", "job.result_rate", "job.backlog", "job.latency.end_to_end.p95", "job.state.memory"];
    const table = (n, entry) => Object.fromEntries([...Array(n).keys()].flatMap(entry));
    const process = name => ({name, pid: 1, memory_mb: 200, restarts: 0});
    const sites = table(SITES, i => [[`site-${i}`, {state: "up", processes: PROCESSES.map(process), error: null}]]);
    const output = i => ({site: `site-${i % SITES}`, stream: `OUT_job-${i}`, topic: `t/${i}`, rejected_topic: "r"});
    const inputs = i => i < SITES ? [{name: "d", site: `site-${i}`, stream: "IN", from_device: true}]
        : [{name: `t/${i - SITES}`, ...output(i - SITES), from_device: false}];
    const jobs = table(JOBS, i => [[`job-${i}`, {spec: {name: `job-${i}`}, site: `site-${i % SITES}`,
        epoch: 1, state: "running", operation: null, inputs: inputs(i), output: output(i), pipeline: null}]]);
    const statuses = round => table(JOBS, i => [[`job-${i}`, {job: `job-${i}`, batch: round, serials: {}, events: round,
        events_per_s: 10 + round, committed_at: new Date().toISOString(), results: 0, rejected: 0, batch_s: 0.2,
        restarts: 0, error: null}]]);
    const values = round => {
        const sample = n => [Date.now() / 1000, n + round];
        return {...table(JOBS, i => METRICS.map((metric, n) => [`site-${i % SITES}/job:job-${i}/${metric}`, sample(i + n)])),
            ...table(SITES, i => PROCESSES.map(name => [`site-${i}/process:${name}/process.cpu.utilization`, sample(0.1)])),
            ...table(SITES, i => [[`hub/link:site-${i}/link.round_trip`, sample(0.01)]])};
    };

    const [model, place, drawn, tasks] = [new MeshModel(), document.getElementById("main"), [], []];
    const view = new MeshView({model, migrate() {}});
    place.replaceChildren(...view.element);
    new PerformanceObserver(list => tasks.push(...list.getEntries())).observe({entryTypes: ["longtask"]});
    model.listen(sections => {
        const before = performance.now();
        view.show(sections);
        drawn.push(performance.now() - before);
    });
    const { readable, writable } = new TransformStream();
    const [writer, encoder] = [writable.getWriter(), new TextEncoder()];
    const tell = (kind, content) => writer.write(encoder.encode(
        `event: ${kind}\ndata: ${JSON.stringify({at: new Date().toISOString(), ...content})}\n\n`));
    const following = (async () => {
        for await (const { event, data } of events(new Response(readable))) model.take(event, data);
    })();
    const drawnTimes = async count => { while (drawn.length < count) await new Promise(requestAnimationFrame); };

    await tell("snapshot", {sites, jobs, statuses: statuses(0), values: values(0)});
    await drawnTimes(1);
    await new Promise(resolve => setTimeout(resolve, PAUSE_MS));
    const begun = [];
    for (let round = 1; round <= rounds; round += 1) {
        begun.push(performance.now());
        await tell("change", {statuses: statuses(round), values: values(round)});
        await drawnTimes(1 + round);
        await new Promise(resolve => setTimeout(resolve, PAUSE_MS));
    }
    await Promise.all([writer.close(), following]);
    const count = selector => place.querySelectorAll(selector).length;
    const measured = row => [...row.children].slice(3, 7).every(cell => cell.textContent !== "–");
    const longest = (from, i) => Math.max(0, ...tasks.filter(({ startTime }) => startTime >= from
        && startTime < (begun[i + 1] ?? Infinity)).map(task => task.duration));
    return {jobs: count(".job"), flows: count(".flow"), rows: [...place.querySelectorAll("tbody tr")].filter(measured).length,
        first: drawn[0], drawn: drawn.slice(1), longest: begun.map(longest)};
}
