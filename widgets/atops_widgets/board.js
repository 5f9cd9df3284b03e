// Several widgets in one: each has a part of the model. What is told to a part carries its number, and what it says.
// `widgets` has their modules by the names of their files.
export default {
  render({model, el}) {
    const snapshots = model.get("snapshots") || [];
    const board = node("div", {class: "atops-board", "data-testid": "atops-board"});
    el.append(board);
    const ends = model.get("parts").map((table, part) => {
      const place = node("div", {class: `atops-part${table.beside ? " atops-beside" : ""}`});
      board.append(place);
      const heard = new Map();
      const own = {
        get: (name) => (name === "table" ? table : name === "snapshot" ? snapshots[part] : model.get(name)),
        set: (name, value) => model.set(name, value),
        save_changes: () => model.save_changes(),
        send: (content) => model.send({part, content}),
        on(name, act) {
          const hear = name === "msg:custom" ? (told, buffers) => told.part === part && act(told.content, buffers) : act;
          heard.set(act, hear);
          model.on(name, hear);
        },
        off: (name, act) => model.off(name, heard.get(act)),
      };
      return widgets[table.script].render({model: own, el: place});
    });
    return () => ends.forEach((end) => end());
  },
};
