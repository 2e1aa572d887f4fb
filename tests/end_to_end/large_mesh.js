// Draws a mesh of 100 jobs at 6 sites in the page's own modules, and ten changes of all jobs.
async () => {
    const [{ MeshModel }, { MeshView }] = await Promise.all([import("/page/mesh_model.js"), import("/page/mesh.js")]);
    const names = n => [...Array(n).keys()];
    const sites = Object.fromEntries(names(6).map(i => [`site-${i}`, {state: "up", processes: [], error: null}]));
    const output = i => ({site: `site-${i % 6}`, stream: `OUT_job-${i}`, topic: `t/${i}`, rejected_topic: "r"});
    const inputs = i => i < 6 ? [{name: "d", site: `site-${i}`, stream: "IN", from_device: true}]
        : [{name: `t/${i - 6}`, ...output(i - 6), from_device: false}];
    const jobs = Object.fromEntries(names(100).map(i => [`job-${i}`, {spec: {name: `job-${i}`}, site: `site-${i % 6}`,
        epoch: 1, state: "running", operation: null, inputs: inputs(i), output: output(i), pipeline: null}]));
    const status = (i, round) => ({job: `job-${i}`, batch: round, serials: {}, events: round, events_per_s: 10 + round,
        committed_at: new Date().toISOString(), results: 0, rejected: 0, batch_s: 0.2, restarts: 0, error: null});
    const statuses = round => Object.fromEntries(names(100).map(i => [`job-${i}`, status(i, round)]));
    const model = new MeshModel();
    const view = new MeshView({model, migrate() {}});
    const place = document.createElement("div");
    place.append(...view.element);
    document.getElementById("main").replaceChildren(place);
    const tasks = [];
    const observer = new PerformanceObserver(list => tasks.push(...list.getEntries().map(entry => entry.duration)));
    observer.observe({entryTypes: ["longtask"]});
    model.listen(sections => view.show(sections));
    const at = () => new Date().toISOString();
    model.take("snapshot", {at: at(), sites, jobs, statuses: statuses(0)});
    const drawn = [];
    for (const round of names(10)) {
        await new Promise(resolve => setTimeout(resolve, 100));
        model.take("change", {at: at(), statuses: statuses(round + 1)});
        await new Promise(requestAnimationFrame);
        const before = performance.now();
        view.show(new Set(["statuses"]));
        drawn.push(performance.now() - before);
    }
    await new Promise(resolve => setTimeout(resolve, 200));
    return {jobs: place.querySelectorAll(".job").length, rows: place.querySelectorAll("tbody tr").length,
        flows: place.querySelectorAll(".flow").length, longest: Math.max(0, ...tasks), drawn: Math.max(...drawn)};
}
