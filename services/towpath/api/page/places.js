/**
 * The part of the view of the mesh that asks where jobs should be, and shows what that would change.
 */

import { look } from "./api.js";
import { KeyedTable, make, say } from "./elements.js";
import { bytes, duration, number } from "./wording.js";

export const POLICIES = ["baseline", "performance", "quality", "energy"];

export class PlacesPart {
  /** @param drawn called when `proposal` has changed: the picture shows it, too */
  constructor(migrate, drawn) {
    Object.assign(this, { migrate, drawn, proposal: null });
    this.policy = make("select", {}, POLICIES.map((name) => make("option", { value: name, selected: name === "performance" }, name)));
    this.figures = new KeyedTable("Figures, as predicted", [["", ""], ["Latency", "number"], ["Power", "number"], ["Over links", "number"],
      ["Checked", "number"], ["Lacking", ""]], "");
    this.moves = new KeyedTable("Moves", [["Job", ""], ["From", ""], ["To", ""], ["State", "number"], ["Takes", "number"], ["", ""]],
      "All jobs are where they should be.");
    this.answer = make("div", { class: "stack", hidden: true }, this.figures.element, this.moves.element);
    this.said = make("p", { class: "problem", role: "status", hidden: true });
    this.ask = make("button", { type: "submit", class: "primary" }, "Propose");
    this.element = make("section", { class: "card stack", "aria-label": "Places" }, make("h2", {}, "Where should jobs be?"),
      make("form", { class: "row asked", onsubmit: (event) => { event.preventDefault(); this.#propose(); } },
        make("label", {}, "By the policy", this.policy), this.ask,
        make("button", { type: "button", onclick: () => this.#show(null) }, "Put away")), this.said, this.answer);
    this.aborting = new AbortController();
  }

  /** Stop all work in the background. */
  end() {
    this.aborting.abort();
  }

  async #propose() {
    this.ask.disabled = true;
    try {
      this.#show(await look(`/placement?policy=${this.policy.value}`, { signal: this.aborting.signal }));
    } catch (error) {
      this.#show(null, error.message);
    }
    this.ask.disabled = false;
  }

  #show(proposal, problem = "") {
    this.proposal = proposal;
    this.said.hidden = !problem;
    say(this.said, problem);
    this.answer.hidden = proposal === null;
    if (proposal) {
      this.figures.show([["now", figuresRow("now", proposal.current)], ["then", figuresRow(proposal.policy, proposal.proposed)]]);
      this.moves.show(proposal.moves.map((move) => [JSON.stringify(move), this.#moveRow(move)]));
    }
    this.drawn();
  }

  #moveRow({ job, origin, target, temporary, state_bytes: state, transfer_s: takes }) {
    return [job, origin, temporary ? `${target}, makes room` : target, bytes(state), duration(takes),
      () => make("button", { type: "button", class: "slim", "aria-label": `Migrate ${job} to ${target}`, onclick: () => this.migrate(job, target) },
        "Migrate …")];
  }
}

const figuresRow = (name, { latency_s: latency, power_w: power, bytes_per_s: speed, link_price_per_h: price, checked_share: checked, shortages }) =>
  [name, duration(latency), `${number(power)} W`, `${bytes(speed)}/s${price ? `, price ${number(price)}/h` : ""}`, `${number(100 * checked)} %`, shortages.join("; ")];
